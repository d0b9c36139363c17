"""What to send next until there is an answer: modes, repairs, and the second call that extracts.

Knows nothing of time, endpoints and repeated tries; whoever drives it sends `request` in `mode` and tells what came.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel

from agent_runtime.llm.answers.modes import ModeMemory
from agent_runtime.llm.answers.reading import read_completion, strip_thinking
from agent_runtime.llm.errors import ModelEndpointError, ModelError, ModelParseError, ModelTruncatedError
from agent_runtime.llm.requests import Completion, Message, ModelRequest, SchemaMode

REPAIR_QUOTE_CHARS_MAX = 2000
"""Characters of a bad answer that are shown to the model again; a longer one is cut."""
EXTRACT_CHARS_MAX = 8000
"""Characters of a free answer from which the value is extracted: its last ones, where decisions stand."""

_MODE_REFUSALS = frozenset({400, 422, 501})
_EXTRACT = "You are given what somebody answered. Give what it says in the form asked for; add nothing of your own."


class Dialogue:
    """One question until its answer.

    With `is_two_call` the model first answers freely and is then given its own text, to extract the value;
    a request without an answer type needs no second call.
    """

    __slots__ = (
        "_asked",
        "_candidates",
        "_modes",
        "_place",
        "_repairs_left",
        "completion",
        "extract",
        "mode",
        "request",
        "value",
    )

    def __init__(
        self, request: ModelRequest, modes: ModeMemory, *, repairs_max: int = 1, is_two_call: bool = False
    ) -> None:
        self._asked = request
        self._modes = modes
        self._repairs_left = repairs_max
        self._candidates: tuple[SchemaMode, ...] = ()
        self._place = 0
        self.value: BaseModel | None = None
        self.completion: Completion | None = None
        self.extract: str | None = None
        self.request: ModelRequest
        self.mode: SchemaMode
        self._begin(find_first_request(request, is_two_call=True) if is_two_call else request)

    def take(self, completion: Completion) -> bool:
        """Takes in what came back; True when it is the answer, False when there is another `request` to send.

        Raises:
            ModelParseError, ModelTruncatedError: the last answer was still unusable.
            ModelRefusedError: at once; a refusal is an answer and is not argued with.
        """
        if len(self._candidates) > 1:
            self._modes.remember(self.request, self.mode)
        self._candidates = ()
        try:
            value = read_completion(self.request, completion)
        except (ModelParseError, ModelTruncatedError) as error:
            if self._repairs_left == 0 or (self.request.answer_type is None and not completion.tool_calls):
                raise
            self._repairs_left -= 1
            self.mode = _repair_mode(error, self.mode)
            self.request = _repair_request(self.request, error)
            return False
        if self.completion is not None:
            self.extract = completion.text
            self.value = value
            return True
        self.completion = completion
        self.value = value
        if completion.tool_calls or self.request.answer_type is self._asked.answer_type:
            return True
        self._begin(_extract_request(self._asked, completion.text))
        return False

    def try_next_mode(self, error: ModelEndpointError) -> bool:
        """Whether a refused request may be accepted in another mode, which is now `mode`."""
        if error.http_status not in _MODE_REFUSALS or self._place + 1 >= len(self._candidates):
            return False
        self._place += 1
        self.mode = self._candidates[self._place]
        return True

    def _begin(self, request: ModelRequest) -> None:
        self.request = request
        self._candidates = self._modes.candidates(request)
        self._place = 0
        self.mode = self._candidates[0]


def find_first_request(request: ModelRequest, *, is_two_call: bool) -> ModelRequest:
    """What is sent first for a question."""
    return replace(request, answer_type=None) if is_two_call and request.answer_type is not None else request


def _extract_request(asked: ModelRequest, text: str) -> ModelRequest:
    said = strip_thinking(text)[-EXTRACT_CHARS_MAX:] or "(nothing)"
    messages = (Message("system", _EXTRACT), Message("user", f"The answer:\n\n{said}"))
    temperature = None if asked.temperature is None else 0.0
    return replace(asked, messages=messages, temperature=temperature, tools=(), step=1)


def _repair_mode(error: ModelError, mode: SchemaMode) -> SchemaMode:
    # Thinking models may loop inside a grammar until the tokens run out, without ever opening the
    # object. Asking again under the same grammar would loop again.
    if isinstance(error, ModelTruncatedError) and mode is not SchemaMode.TEXT and "{" not in strip_thinking(error.text):
        return SchemaMode.PROMPT
    return mode


def _repair_request(request: ModelRequest, error: ModelParseError | ModelTruncatedError) -> ModelRequest:
    if isinstance(error, ModelTruncatedError):
        problem = f"it was cut off after {error.max_tokens} tokens; be brief and give the object at once"
    else:
        problem = error.problem
    quote = strip_thinking(error.text)[:REPAIR_QUOTE_CHARS_MAX] or "(no answer)"
    shape = "the corrected JSON object only" if request.answer_type is not None else "a correct call"
    told = f"That reply cannot be used: {problem}. Reply again with {shape}."
    messages = (*request.messages, Message("assistant", quote), Message("user", told))
    return replace(request, messages=messages)
