"""Calls of questions at endpoints: each within its time, after which its seat is free and its cost is known."""

from __future__ import annotations

from dataclasses import replace

from agent_runtime.llm.admission import Dispatch, Seat
from agent_runtime.llm.call_timers import CallTimer, CallTimers
from agent_runtime.llm.errors import ModelTimeoutError
from agent_runtime.llm.questions import Question
from agent_runtime.llm.requests import Completion, ModelRequest
from agent_runtime.llm.weighing import Weighing


class Calls:
    """Makes the calls of one model's questions."""

    def __init__(self, dispatch: Dispatch, weighing: Weighing, *, timeout_s: float, retry_total_s: float) -> None:
        self.dispatch = dispatch
        self.weighing = weighing
        self.timeout_s = timeout_s
        self._retry_total_s = retry_total_s
        self.timers = CallTimers(timeout_s)

    def begin(self, question: Question, seat: Seat) -> Call:
        """One more call of a question, for a `with` around it."""
        question.attempts += 1
        request = question.dialogue.request
        if question.attempts == 1:
            question.started_s = seat.entered_s
        else:
            request = replace(request, attempt=question.attempts)
        self.weighing.calls += 1
        if request.tokens_max is not None:
            request = self.weighing.bound(question, request)
        return Call(self, question, seat, request)

    async def make_again(self, question: Question) -> Completion:
        """One more call of a question that has been let in before, as soon as it is let in again."""
        load = self.weighing.weigh(question)
        seat = self.dispatch.try_enter(load)
        if seat is None:
            deadline_s = question.started_s + self._retry_total_s
            seat = await self.dispatch.enter(load, deadline_s, is_repeated=True)
        with self.begin(question, seat) as call:
            call.completion = await seat.endpoint.provider.complete(call.request, question.dialogue.mode)
        return call.completion

    def close(self) -> None:
        """No timer any more."""
        self.dispatch.close()
        self.timers.close()


class Call(CallTimer):
    """One call at an endpoint. Its `completion` is to be set within the `with`."""

    __slots__ = ("_calls", "_question", "_seat", "completion", "request")

    def __init__(self, calls: Calls, question: Question, seat: Seat, request: ModelRequest) -> None:
        super().__init__(calls.timers)
        self._calls = calls
        self._question = question
        self._seat = seat
        self.request = request
        self.completion: Completion

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            super().__exit__(kind, error, trace)
        except TimeoutError as over:
            error = over
        calls = self._calls
        if error is None:
            load = calls.weighing.note_completion(self._question, self.completion)
            calls.dispatch.leave(self._seat, load, None)
            return
        is_timeout = isinstance(error, TimeoutError)
        if is_timeout:
            error = ModelTimeoutError(self.request.model, calls.timeout_s)
        calls.dispatch.leave(self._seat, calls.weighing.note_failure(self._question, error), error)
        if is_timeout:
            raise error from None
