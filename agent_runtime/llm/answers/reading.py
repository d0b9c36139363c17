"""Reads what a model wrote: leniently (prose around the object, code fences, think blocks), then validates strictly."""

from __future__ import annotations

import json
import re
from typing import NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from agent_runtime.llm.errors import ModelParseError, ModelRefusedError, ModelTruncatedError
from agent_runtime.llm.histories import holds_arguments
from agent_runtime.llm.requests import Completion, ModelRequest

M = TypeVar("M", bound=BaseModel)

OBJECTS_MAX = 64
"""Opening braces that are tried as the start of the answer before the text counts as unreadable."""

READ_CHARS_MAX = 4 * 1024 * 1024
"""Of what turned out to be no object, over all such braces: everybody waits meanwhile."""
_THINK_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)


def read_completion(request: ModelRequest, completion: Completion) -> BaseModel | None:
    """Returns the validated value of a completion, None for a request for free text, and where tools are called.

    An object that is complete counts even when the prose after it was cut off.

    Raises:
        ModelRefusedError, ModelTruncatedError, ModelParseError: there is no usable answer in it.
    """
    if completion.finish_reason == "content_filter":
        raise ModelRefusedError(request.model, text=completion.text)
    truncated = completion.finish_reason == "length"
    if completion.tool_calls and not truncated:
        _check_tool_calls(request, completion)
        return None
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


def _check_tool_calls(request: ModelRequest, completion: Completion) -> None:
    known = {tool.name for tool in request.tools}
    for call in completion.tool_calls:
        if call.name not in known:
            raise ModelParseError(request.model, "it calls a tool that there is not", text=completion.text)
        if not holds_arguments(call.arguments):
            raise ModelParseError(request.model, f"arguments of {call.name} are no JSON object", text=completion.text)


def read_object(text: str, answer_type: type[M]) -> M:
    """Returns the first JSON object in `text`, outside think blocks, that fits `answer_type`.

    Raises:
        ValueError: with one line that tells the model what was wrong; it quotes names and limits of
            the type, never the answer.
    """
    if text.startswith("{") and "NaN" not in text and "Infinity" not in text:
        # What nearly all answers are, read in one step: the object and nothing else.
        try:
            return answer_type.model_validate_json(text)
        except ValidationError:
            pass
    visible = strip_thinking(text)
    problem = "it holds no JSON object"
    start, wasted = visible.find("{"), 0
    for _ in range(OBJECTS_MAX):
        if start < 0 or wasted > READ_CHARS_MAX:
            break
        try:
            _, end = _DECODER.raw_decode(visible, start)
        except (ValueError, RecursionError) as error:
            wasted += getattr(error, "pos", len(visible)) - start
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


def _describe(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    first = details[0]
    place = ".".join(map(str, first["loc"])) or "the object"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return f"{place}: {first['msg']}{more}"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
