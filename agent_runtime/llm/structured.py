"""Typed answers from models that write text.

An endpoint is asked for the shape in the strictest way it accepts; what comes back is read leniently
(prose around the object, code fences, think blocks), validated strictly, and repaired by at most one
further call that says what was wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import lru_cache
from typing import NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from agent_runtime.llm.errors import (
    ModelEndpointError,
    ModelError,
    ModelParseError,
    ModelRefusedError,
    ModelTruncatedError,
)
from agent_runtime.llm.requests import Completion, Message, ModelRequest, SchemaMode

M = TypeVar("M", bound=BaseModel)
Complete = Callable[[ModelRequest, SchemaMode], Awaitable[Completion]]

LADDER = (SchemaMode.JSON_SCHEMA, SchemaMode.JSON_OBJECT, SchemaMode.PROMPT)
OBJECTS_MAX = 64
"""Opening braces that are tried as the start of the answer before the text counts as unreadable."""
REPAIR_QUOTE_CHARS_MAX = 2000
"""Characters of a bad answer that are shown to the model again; a longer one is cut."""

_MODE_REFUSALS = frozenset({400, 422, 501})
_THINK_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)


class ModeMemory:
    """Which schema mode an endpoint accepts, by model and answer type.

    Learned from real requests: the first mode that works is kept, so no call is spent on probing and
    nobody waits for a probe. Until then each request tries the ladder from the top. One endpoint may
    accept one type and refuse another (a keyword its grammar lacks), hence the key.
    """

    def __init__(self) -> None:
        self._accepted: dict[tuple[str, type[BaseModel]], SchemaMode] = {}

    def candidates(self, request: ModelRequest) -> tuple[SchemaMode, ...]:
        """Returns the modes worth trying, the strictest first."""
        if request.answer_type is None:
            return (SchemaMode.TEXT,)
        accepted = self._accepted.get((request.model, request.answer_type))
        return LADDER if accepted is None else (accepted,)

    def remember(self, request: ModelRequest, mode: SchemaMode) -> None:
        """Keeps `mode` for the model and answer type of `request`; the first one told stays."""
        if request.answer_type is not None:
            self._accepted.setdefault((request.model, request.answer_type), mode)

    def accepted(self) -> dict[str, SchemaMode]:
        """Returns what has been learned, as `model/TypeName` → mode, for records."""
        return {f"{model}/{kind.__name__}": mode for (model, kind), mode in self._accepted.items()}


async def ask_typed(
    request: ModelRequest, complete: Complete, modes: ModeMemory, *, repairs_max: int = 1
) -> tuple[Completion, BaseModel | None, SchemaMode]:
    """Asks, reads, and repairs at most `repairs_max` times.

    Returns the completion that was read, its value (None for free text) and the mode it was asked in.

    Raises:
        ModelParseError, ModelTruncatedError: the last answer was still unusable.
        ModelRefusedError: at once; a refusal is an answer and is not argued with.
        ModelError: whatever `complete` raises.
    """
    completion, mode = await _complete_in_best_mode(request, complete, modes)
    for repairs_left in range(repairs_max, -1, -1):
        try:
            return completion, read_completion(request, completion), mode
        except (ModelParseError, ModelTruncatedError) as error:
            if repairs_left == 0 or request.answer_type is None:
                raise
            mode = _repair_mode(error, mode)
            completion = await complete(_repair_request(request, error), mode)
    raise AssertionError("the loop returns or raises")


def read_completion(request: ModelRequest, completion: Completion) -> BaseModel | None:
    """Returns the validated value of a completion, None for a request for free text.

    An object that is complete counts even when the prose after it was cut off.

    Raises:
        ModelRefusedError, ModelTruncatedError, ModelParseError: there is no usable answer in it.
    """
    if completion.finish_reason == "content_filter":
        raise ModelRefusedError(request.model, text=completion.text)
    truncated = completion.finish_reason == "length"
    if request.answer_type is None:
        if truncated:
            raise ModelTruncatedError(request.model, request.max_tokens, text=completion.text)
        return None
    try:
        return read_object(completion.text, request.answer_type)
    except ValueError as error:
        if truncated:
            raise ModelTruncatedError(request.model, request.max_tokens, text=completion.text) from None
        raise ModelParseError(request.model, str(error), text=completion.text) from None


def read_object(text: str, answer_type: type[M]) -> M:
    """Returns the first JSON object in `text`, outside think blocks, that fits `answer_type`.

    Raises:
        ValueError: with one line that tells the model what was wrong; it quotes names and limits of
            the type, never the answer.
    """
    visible = strip_thinking(text)
    problem = "it holds no JSON object"
    start = visible.find("{")
    for _ in range(OBJECTS_MAX):
        if start < 0:
            break
        try:
            _, end = _DECODER.raw_decode(visible, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            try:
                return answer_type.model_validate_json(visible[start:end])
            except ValidationError as error:
                if problem.startswith("it holds"):
                    problem = _describe(error)
        start = visible.find("{", end)
    raise ValueError(problem)


def strip_thinking(text: str) -> str:
    """Returns `text` without its think blocks, including one never closed or opened outside the text."""
    parts: list[str] = []
    position = depth = 0
    for tag in _THINK_TAG.finditer(text):
        if depth == 0:
            parts.append(text[position : tag.start()])
        position = tag.end()
        if not tag[1]:
            depth += 1
        elif depth > 0:
            depth -= 1
        else:
            # Closed but never opened: the prompt template had opened it, all so far was thinking.
            parts.clear()
    if depth == 0:
        parts.append(text[position:])
    return "".join(parts).strip()


@lru_cache(maxsize=256)
def answer_schema(answer_type: type[BaseModel]) -> dict[str, object]:
    """Returns the JSON schema of `answer_type` in the strict dialect: closed objects, every property
    required, no titles and defaults. Do not change the returned value: it is shared."""
    schema = _tighten(answer_type.model_json_schema())
    assert isinstance(schema, dict)
    return schema


def shape_messages(request: ModelRequest, mode: SchemaMode) -> tuple[Message, ...]:
    """Returns the messages to send in `mode`: below `json_schema` the last one states the schema.

    It goes to the end, where it leaves the shared beginning of many prompts cacheable.
    """
    if request.answer_type is None or mode in (SchemaMode.JSON_SCHEMA, SchemaMode.TEXT):
        return request.messages
    schema = json.dumps(answer_schema(request.answer_type), ensure_ascii=False, separators=(",", ":"))
    last = request.messages[-1]
    told = f"{last.content}\n\nReply with a single JSON object and nothing else. Its JSON schema: {schema}"
    return (*request.messages[:-1], Message(last.role, told))


async def _complete_in_best_mode(
    request: ModelRequest, complete: Complete, modes: ModeMemory
) -> tuple[Completion, SchemaMode]:
    candidates = modes.candidates(request)
    for mode in candidates:
        try:
            completion = await complete(request, mode)
        except ModelEndpointError as error:
            if mode is candidates[-1] or error.http_status not in _MODE_REFUSALS:
                raise
        else:
            modes.remember(request, mode)
            return completion, mode
    raise AssertionError("the last candidate returns or raises")


def _repair_mode(error: ModelError, mode: SchemaMode) -> SchemaMode:
    # Thinking models may loop inside a grammar until the tokens run out, without ever opening the
    # object. Asking again under the same grammar would loop again.
    if isinstance(error, ModelTruncatedError) and "{" not in strip_thinking(error.text):
        return SchemaMode.PROMPT
    return mode


def _repair_request(request: ModelRequest, error: ModelParseError | ModelTruncatedError) -> ModelRequest:
    if isinstance(error, ModelTruncatedError):
        problem = f"it was cut off after {error.max_tokens} tokens; be brief and give the object at once"
    else:
        problem = error.problem
    quote = strip_thinking(error.text)[:REPAIR_QUOTE_CHARS_MAX] or "(no answer)"
    told = f"That reply cannot be used: {problem}. Reply again with the corrected JSON object only."
    messages = (*request.messages, Message("assistant", quote), Message("user", told))
    return replace(request, messages=messages)


def _describe(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    first = details[0]
    place = ".".join(map(str, first["loc"])) or "the object"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return f"{place}: {first['msg']}{more}"


def _tighten(node: object, *, names: bool = False) -> object:
    """Returns a schema node in the strict dialect; `names` marks a map from names to schemas."""
    if isinstance(node, list):
        return [_tighten(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _tighten(child) for name, child in node.items()}
    tight = {
        key: _tighten(child, names=key in ("properties", "$defs"))
        for key, child in node.items()
        if key not in ("title", "default")
    }
    if "properties" in tight:
        tight["additionalProperties"] = False
        tight["required"] = list(node["properties"])
    return tight


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
