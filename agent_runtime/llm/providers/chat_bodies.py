"""The OpenAI chat protocol as JSON: requests written, completions and errors read."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from agent_runtime.llm.answers import answer_schema, shape_messages
from agent_runtime.llm.requests import Completion, Message, ModelRequest, SchemaMode, Tool, ToolCall


def write_request(request: ModelRequest, mode: SchemaMode, max_tokens_field: str) -> bytes:
    """The body of a request; the shape of the answer is asked for as `mode` says."""
    # In pieces: but for the messages, one request is like the next.
    messages = shape_messages(request, mode)
    parts = [
        b'{"model":',
        to_json(request.model),
        b',"messages":',
        to_json([*map(_write_message, messages)]),
        b',"%b":%d,"stream":false' % (max_tokens_field.encode(), request.max_tokens),
    ]
    if request.temperature is not None:
        parts += (b',"temperature":', to_json(request.temperature))
    if request.seed is not None:
        parts.append(b',"seed":%d' % request.seed)
    if request.answer_type is not None and mode is SchemaMode.JSON_SCHEMA:
        parts.append(_write_schema_format(request.answer_type))
    elif mode is SchemaMode.JSON_OBJECT:
        parts.append(b',"response_format":{"type":"json_object"}')
    if request.tools:
        parts += (b',"tools":', to_json([*map(_write_tool, request.tools)]))
    parts.append(b"}")
    return b"".join(parts)


def read_completion(content: bytes, model: str) -> Completion:
    """What the body of a 200 says; `model` is who was asked, where it does not say who answered.

    Raises ValueError if it is no chat completion.
    """
    try:
        reply: Any = from_json(content)
        choice = reply["choices"][0]
        message = choice["message"]
        refusal = message.get("refusal")
        usage = reply.get("usage") or {}
        calls = message.get("tool_calls")
        return Completion(
            text=str(refusal or message.get("content") or ""),
            finish_reason="content_filter" if refusal else str(choice.get("finish_reason") or "stop"),
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            completion_tokens=int(usage.get("completion_tokens") or 0),
            model=str(reply.get("model") or model),
            tool_calls=_read_tool_calls(calls) if calls else (),
        )
    except (TypeError, LookupError, AttributeError) as error:
        raise ValueError("no chat completion") from error


def read_error(content: bytes) -> tuple[str, str]:
    """Returns the code and the reason in an error body, whatever its shape."""
    try:
        body: Any = from_json(content)
    except ValueError:
        # A page of HTML says nothing that its status does not.
        text = content[:1000].decode("utf-8", "replace").strip()
        return "", "" if text.startswith("<") else text
    error = body.get("error", body) if isinstance(body, dict) else {}
    if not isinstance(error, dict):
        return "", str(error)
    return str(error.get("code") or error.get("type") or ""), str(error.get("message") or "")


def _write_message(message: Message) -> dict[str, object]:
    if message.tool_calls:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
        # Some endpoints refuse empty content, all take null beside calls.
        return {"role": message.role, "content": message.content or None, "tool_calls": calls}
    if message.role == "tool":
        return {"role": "tool", "content": message.content, "tool_call_id": message.tool_call_id}
    return {"role": message.role, "content": message.content}


@lru_cache(maxsize=256)
def _write_schema_format(answer_type: type[BaseModel]) -> bytes:
    shape = {"name": answer_type.__name__, "strict": True, "schema": answer_schema(answer_type)}
    return b',"response_format":%b' % to_json({"type": "json_schema", "json_schema": shape})


def _write_tool(tool: Tool) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _read_tool_calls(calls: Any) -> tuple[ToolCall, ...]:
    """What the model calls; an id that is missing is made up, so that the reply can name it."""
    return tuple(
        ToolCall(
            str(call.get("id") or f"call_{place}"),
            str(call["function"]["name"]),
            str(call["function"].get("arguments") or "{}"),
        )
        for place, call in enumerate(calls)
    )
