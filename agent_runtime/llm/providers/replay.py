"""A model that answers as it did in a recorded run."""

from __future__ import annotations

from agent_runtime.llm.errors import (
    ModelCancelledError,
    ModelError,
    ModelParseError,
    ModelRefusedError,
    ModelReplayError,
    ModelTimeoutError,
    ModelTruncatedError,
)
from agent_runtime.llm.records import RecordedCall, RecordedCalls, describe_request, find_differences, hash_request
from agent_runtime.llm.requests import Completion, ModelRequest, SchemaMode


class ReplayProvider:
    """Finds the answer by agent, turn and call, and checks by its hash that the request is the recorded one.

    A question that failed fails again with the recorded status, at once and for good. Answers come in any
    order, without latency, and report the tokens of the record. Attempts of the record are not repeated.
    """

    def __init__(self, calls: RecordedCalls) -> None:
        self._calls = calls

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        call = self._calls.find(request.agent_id, request.turn, request.call)
        if call is None:
            raise ModelReplayError(request.model, request.agent_id, request.turn, request.call, ())
        if request.step:
            # The second call of a question extracts from the answer that its first call gave, as recorded.
            return Completion(call.extract, "stop", 0, 0, call.model)
        check_request(call, request)
        if call.status != "ok":
            error = _recorded_error(request, call)
            error.prompt_tokens = call.prompt_tokens
            error.completion_tokens = call.completion_tokens
            error.microdollars = call.microdollars
            raise error
        return Completion(
            call.text, call.finish_reason, call.prompt_tokens, call.completion_tokens, call.model, call.tool_calls
        )

    async def aclose(self) -> None:
        """Nothing to release."""


def check_request(call: RecordedCall, request: ModelRequest) -> None:
    """Raises ModelReplayError, which says what differs, unless the request is the recorded one."""
    body = describe_request(request)
    if not call.request_hash or hash_request(body) == call.request_hash:
        return
    differences = find_differences(call.request_json, body) if call.request_json else ("its hash is another",)
    raise ModelReplayError(request.model, request.agent_id, request.turn, request.call, differences)


def _recorded_error(request: ModelRequest, call: RecordedCall) -> ModelError:
    model = request.model
    if call.status == "parse_error":
        return ModelParseError(model, call.reason, text=call.text)
    if call.status == "truncated":
        return ModelTruncatedError(model, request.max_tokens, text=call.text)
    if call.status == "refused":
        return ModelRefusedError(model, text=call.text)
    if call.status == "timeout":
        return RecordedTimeoutError(model, call.reason)
    if call.status == ModelCancelledError.status:
        return RecordedCancelError(model, call.reason)
    return ModelError(model, f"as recorded: {call.reason}")


class RecordedTimeoutError(ModelTimeoutError):
    """A question that got no answer in time, when it was recorded; asking again would not help."""

    transient = False

    def __init__(self, model: str, reason: str) -> None:
        ModelError.__init__(self, model, f"as recorded: {reason}")
        self.timeout_s = 0.0


class RecordedCancelError(RecordedTimeoutError, TimeoutError):
    """A question whose asker had no more time when it was recorded: to the asker, what its own time limit gives."""
