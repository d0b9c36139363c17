"""Calls of questions at endpoints: each within its time, after which its permit is back and its cost is known."""

from __future__ import annotations

from dataclasses import replace

from agent_runtime.llm.admission import Dispatch, Permit
from agent_runtime.llm.call_timers import CallTimer, CallTimers
from agent_runtime.llm.costs import CallCosts
from agent_runtime.llm.errors import ModelError, ModelTimeoutError
from agent_runtime.llm.questions import Question
from agent_runtime.llm.requests import Completion, ModelRequest


class Calls:
    """Makes the calls of one model's questions."""

    def __init__(self, dispatch: Dispatch, costs: CallCosts, *, timeout_s: float, retry_total_s: float) -> None:
        self.dispatch = dispatch
        self.costs = costs
        self.timeout_s = timeout_s
        self._retry_total_s = retry_total_s
        self.timers = CallTimers(timeout_s)

    def begin(self, question: Question, permit: Permit) -> Call:
        """One more call of a question, for a `with` around it."""
        question.attempts += 1
        request = question.dialogue.request
        if question.attempts == 1:
            question.started_s = permit.granted_s
        else:
            request = replace(request, attempt=question.attempts)
        self.costs.calls += 1
        if request.tokens_max is not None:
            request = self.costs.bound(question, request)
        return Call(self, question, permit, request)

    async def make_again(self, question: Question) -> Completion:
        """One more call of a question that has been let in before, as soon as it is let in again."""
        load = self.costs.estimate(question)
        permit = self.dispatch.try_acquire(load)
        if permit is None:
            deadline_s = question.started_s + self._retry_total_s
            permit = await self.dispatch.acquire(load, deadline_s, is_repeated=True)
        with self.begin(question, permit) as call:
            call.completion = await permit.endpoint.provider.complete(call.request, question.dialogue.mode)
        return call.completion

    def close(self) -> None:
        """No timer any more."""
        self.dispatch.close()
        self.timers.close()


class Call(CallTimer):
    """One call at an endpoint. Its `completion` is to be set within the `with`."""

    __slots__ = ("_calls", "_permit", "_question", "completion", "request")

    def __init__(self, calls: Calls, question: Question, permit: Permit, request: ModelRequest) -> None:
        # As CallTimer has it; this and `__exit__` are on the way of every call.
        self._timers = calls.timers
        self._is_over = False
        self._calls = calls
        self._question = question
        self._permit = permit
        self.request = request
        self.completion: Completion

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None and not self._is_over:
            calls = self._calls
            calls.timers.stop(self)
            load = calls.costs.note_completion(self._question, self.completion)
            calls.dispatch.release(self._permit, load, None)
            return
        try:
            super().__exit__(kind, error, trace)
        except TimeoutError as over:
            error = over
        if isinstance(error, TimeoutError) and not isinstance(error, ModelError):
            late = ModelTimeoutError(self.request.model, self._calls.timeout_s)
            self._leave(late)
            raise late from None
        self._leave(error)

    def _leave(self, error: BaseException | None) -> None:
        costs = self._calls.costs
        if error is None:
            load = costs.note_completion(self._question, self.completion)
        else:
            load = costs.note_failure(self._question, error)
        self._calls.dispatch.release(self._permit, load, error)
