"""What makes two requests the same.

    {"model": …, "messages": [{"role": …, "content": …, "tool_calls": …, "tool_call_id": …}, …],
     "tools": […], "answer": name of the answer type, "schema": its JSON schema, "max_tokens" or "tokens_max": …,
     "temperature": …, "seed": …}

What a request does not have is left out. Who asks, and when, is no part of it. Where the value is extracted by a
second call, the first one is described, which has no answer type.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from agent_runtime.llm.answers import answer_schema
from agent_runtime.llm.requests import Message, ModelRequest


def describe_request(request: ModelRequest) -> bytes:
    """A request as JSON, the same bytes for the same request."""
    # In pieces: most of a request is the same in the next one, and this is on the way of every recorded call.
    messages = to_json([*map(_describe_message, request.messages)])
    parts = [b'{"model":', to_json(request.model), b',"messages":', messages]
    # Where a question is bounded in all, what is left for the answer depends on estimates.
    if request.tokens_max is None:
        parts.append(b',"max_tokens":%d' % request.max_tokens)
    else:
        parts.append(b',"tokens_max":%d' % request.tokens_max)
    if request.tools:
        tools = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in request.tools
        ]
        parts += (b',"tools":', to_json(tools))
    if request.answer_type is not None:
        parts.append(_describe_shape(request.answer_type))
    if request.temperature is not None:
        parts += (b',"temperature":', to_json(request.temperature))
    if request.seed is not None:
        parts.append(b',"seed":%d' % request.seed)
    parts.append(b"}")
    return b"".join(parts)


@lru_cache(maxsize=256)
def _describe_shape(answer_type: type[BaseModel]) -> bytes:
    return b',"answer":%b,"schema":%b' % (to_json(answer_type.__name__), to_json(answer_schema(answer_type)))


def hash_request(body: bytes) -> str:
    """The name of a request under which it is recorded: 32 hexadecimal digits."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def find_differences(recorded: bytes | str, asked: bytes) -> tuple[str, ...]:
    """What is not as recorded, in few words that quote no conversation; () = nothing."""
    before, now = from_json(recorded), from_json(asked)
    if not isinstance(before, Mapping):
        return ("the record is of another version",)
    found = []
    for name in sorted((before.keys() | now.keys()) - {"messages"}):
        if before.get(name) != now.get(name):
            was, is_ = before.get(name), now.get(name)
            plain = not isinstance(was, dict | list) and not isinstance(is_, dict | list)
            found.append(f"{name} is {is_!r}, was {was!r}" if plain else f"{name} is another")
    found.extend(_compare_messages(before.get("messages", []), now["messages"]))
    return tuple(found)


def _compare_messages(before: list[Any], now: list[Any]) -> list[str]:
    found = []
    if len(before) != len(now):
        found.append(f"{len(now)} messages, were {len(before)}")
    for place, (was, is_) in enumerate(zip(before, now, strict=False)):
        if was == is_:
            continue
        if was.get("role") != is_.get("role"):
            found.append(f"message {place} is of role {is_.get('role')}, was of {was.get('role')}")
        elif was.get("content") != is_.get("content"):
            at = _first_difference(str(was.get("content")), str(is_.get("content")))
            found.append(f"message {place} differs from character {at} on")
        else:
            found.append(f"message {place} calls or replies to other tools")
    return found


def _first_difference(before: str, now: str) -> int:
    pairs = enumerate(zip(before, now, strict=False))
    return next((place for place, (was, is_) in pairs if was != is_), min(len(before), len(now)))


def _describe_message(message: Message) -> dict[str, Any]:
    told: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        told["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls
        ]
    if message.tool_call_id:
        told["tool_call_id"] = message.tool_call_id
    return told
