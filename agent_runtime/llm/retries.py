"""What is done after a call has failed: another mode, another try after a while, or nothing more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from agent_runtime.llm.errors import ModelBrokenError, ModelEndpointError, ModelError, ModelUnavailableError
from agent_runtime.llm.questions import Question
from agent_runtime.llm.requests import Completion

BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 20.0


class Retries:
    """Repeats what failed transiently, within a number of attempts and a time.

    `call` makes one more call of a question. Times are of the gateway's clock.
    """

    def __init__(
        self,
        call: Callable[[Question], Awaitable[Completion]],
        *,
        attempts_max: int,
        total_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        jitter: Callable[[], float],
    ) -> None:
        self._call = call
        self._attempts_max = attempts_max
        self._total_s = total_s
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self.done = 0
        """Calls that repeated one which had failed transiently."""
        self.backing_off = 0
        """Questions that wait to be tried again."""

    async def recover(self, question: Question, error: ModelError) -> Completion:
        """What a question gets after its call failed with `error`; raises when nothing is of use any more."""
        while True:
            if isinstance(error, ModelEndpointError) and question.dialogue.try_next_mode(error):
                attempt = self._call(question)
            elif error.transient:
                attempt = self._try_again(question, error)
            else:
                raise error
            try:
                return await attempt
            except ModelError as later:
                if error.transient and later.transient:
                    raise
                if isinstance(later, ModelBrokenError):
                    # What made the question fail is why it was asked again, not that others have failed since.
                    raise error from None
                error = later

    async def _try_again(self, question: Question, error: ModelError) -> Completion:
        # Tenacity costs 20 µs a call even when nothing fails, so it enters only now, and its first
        # attempt is the failure that has just happened.
        first_failure = [error]

        async def attempt() -> Completion:
            if first_failure:
                raise first_failure.pop()
            self.done += 1
            return await self._call(question)

        return await self._retrying(question)(attempt)

    def _retrying(self, question: Question) -> AsyncRetrying:
        def stop(state: RetryCallState) -> bool:
            next_start_s = self._clock() + state.upcoming_sleep - question.started_s
            return state.attempt_number >= self._attempts_max or next_start_s > self._total_s

        return AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, ModelError) and error.transient),
            wait=self._backoff_s,
            stop=stop,
            sleep=self._back_off,
            reraise=True,
        )

    def _backoff_s(self, state: RetryCallState) -> float:
        """Returns the seconds to wait: half fixed and half random of a delay that doubles, but no less
        than the endpoint asked for."""
        delay_s = min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** (state.attempt_number - 1))
        delay_s *= 0.5 + 0.5 * self._jitter()
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, ModelUnavailableError) and error.retry_after_s is not None:
            # Spread over a tenth, so that those who were refused together do not return together.
            return max(delay_s, error.retry_after_s * (1.0 + 0.1 * self._jitter()))
        return delay_s

    async def _back_off(self, seconds: float) -> None:
        self.backing_off += 1
        try:
            await self._sleep(seconds)
        finally:
            self.backing_off -= 1
