"""The way from a turn to a model: admission, time limit, retries, reading, statistics."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from agent_runtime.llm.errors import ModelError, ModelTimeoutError, ModelUnavailableError
from agent_runtime.llm.provider import Provider
from agent_runtime.llm.requests import Answer, Completion, ModelRequest, SchemaMode
from agent_runtime.llm.structured import ModeMemory, ask_typed
from agent_runtime.model.slots import Slots

BACKOFF_FIRST_S = 0.5
BACKOFF_MAX_S = 20.0

_HELD_BACK, _WAITING, _IN_FLIGHT = range(3)


@dataclass(frozen=True, slots=True)
class GatewayStatistics:
    """What a gateway is doing and has done.

    Attributes:
        in_flight: questions that hold a place at the endpoint, those that back off included.
        waiting: questions in the queue, their messages built.
        held_back: callers waiting for the queue, their messages not yet built.
        answers: questions answered.
        failures: questions that ended otherwise, by turn status (`cancelled` included).
        calls: provider calls, of which `retries` repeated one that had failed transiently.
        prompt_tokens, completion_tokens: as reported, over all calls.
    """

    in_flight: int
    waiting: int
    held_back: int
    answers: int
    failures: Mapping[str, int]
    calls: int
    retries: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(slots=True)
class _Question:
    """What one `ask` has cost so far."""

    started_s: float
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Gateway:
    """Asks one provider on behalf of many agents.

    At most `in_flight_max` questions are at the provider and at most `queue_max` wait for their turn
    with their messages built; further callers wait before theirs are. Every `ask` ends: in an answer,
    in one `ModelError`, or in cancellation, which reaches the provider.

    A call may take `timeout_s` seconds. One that failed transiently is repeated after the time that
    the endpoint asked for, else after a jittered exponential delay, at most `attempts_max` times in
    all and as long as the next attempt would start within `retry_total_s` seconds of the first. A
    question keeps its place while it backs off, which slows the whole gateway down when an endpoint
    is overloaded. Permanent errors are not repeated.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        in_flight_max: int = 64,
        queue_max: int = 1024,
        timeout_s: float = 60.0,
        attempts_max: int = 5,
        retry_total_s: float = 180.0,
        repairs_max: int = 1,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if in_flight_max < 1 or queue_max < 0 or attempts_max < 1 or repairs_max < 0:
            raise ValueError("in_flight_max and attempts_max start at 1, queue_max and repairs_max at 0")
        if not (timeout_s > 0 and retry_total_s >= 0):
            raise ValueError("timeout_s must be above 0 and retry_total_s at least 0")
        self._provider = provider
        self._timeout_s = timeout_s
        self._attempts_max = attempts_max
        self._retry_total_s = retry_total_s
        self._repairs_max = repairs_max
        self._clock = clock
        self._sleep = sleep
        self._jitter = jitter
        self._modes = ModeMemory()
        self._places = Slots(in_flight_max + queue_max)
        self._slots = Slots(in_flight_max)
        self._in_flight = self._waiting = self._held_back = 0
        self._answers = self._calls = self._retries = 0
        self._prompt_tokens = self._completion_tokens = 0
        self._failures: Counter[str] = Counter()

    async def ask(self, request: ModelRequest | Callable[[], ModelRequest]) -> Answer:
        """Returns the model's answer, validated against the request's answer type.

        A callable is asked for the request only when the queue has room, so that a crowd of waiting
        agents holds no prompts.

        Raises:
            ModelError: one of its classes, each with the turn status it gives and what it had cost.
        """
        # One coroutine for all stages of waiting: each further one would cost every waiting agent
        # half a kilobyte.
        stage = _HELD_BACK
        self._held_back += 1
        try:
            await self._places.acquire()
            stage = _WAITING
            self._held_back -= 1
            self._waiting += 1
            if not isinstance(request, ModelRequest):
                request = request()
            await self._slots.acquire()
            stage = _IN_FLIGHT
            self._waiting -= 1
            self._in_flight += 1
            return await self._ask_now(request)
        except asyncio.CancelledError:
            self._failures["cancelled"] += 1
            raise
        except ModelError as error:
            self._failures[error.status] += 1
            raise
        finally:
            self._leave(stage)

    def statistics(self) -> GatewayStatistics:
        """Returns a snapshot."""
        return GatewayStatistics(
            in_flight=self._in_flight,
            waiting=self._waiting,
            held_back=self._held_back,
            answers=self._answers,
            failures=dict(self._failures),
            calls=self._calls,
            retries=self._retries,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
        )

    def schema_modes(self) -> dict[str, SchemaMode]:
        """Returns the schema mode that each `model/TypeName` was found to accept, for the manifest."""
        return self._modes.accepted()

    async def aclose(self) -> None:
        """Closes the provider. End the asking tasks first: calls in flight fail. May be called twice."""
        await self._provider.aclose()

    def _leave(self, stage: int) -> None:
        """Gives back what a question holds that ends in `stage`."""
        if stage == _HELD_BACK:
            self._held_back -= 1
            return
        if stage == _IN_FLIGHT:
            self._in_flight -= 1
            self._slots.release()
        else:
            self._waiting -= 1
        self._places.release()

    async def _ask_now(self, request: ModelRequest) -> Answer:
        question = _Question(self._clock())
        complete = partial(self._complete, question)
        try:
            completion, value, mode = await ask_typed(request, complete, self._modes, repairs_max=self._repairs_max)
        except ModelError as error:
            error.attempts = question.attempts
            error.prompt_tokens = question.prompt_tokens
            error.completion_tokens = question.completion_tokens
            error.latency_ms = (self._clock() - question.started_s) * 1000.0
            raise
        self._answers += 1
        return Answer(
            text=completion.text,
            value=value,
            finish_reason=completion.finish_reason,
            attempts=question.attempts,
            prompt_tokens=question.prompt_tokens,
            completion_tokens=question.completion_tokens,
            latency_ms=(self._clock() - question.started_s) * 1000.0,
            mode=mode,
        )

    async def _complete(self, question: _Question, request: ModelRequest, mode: SchemaMode) -> Completion:
        try:
            return await self._call_once(question, request, mode)
        except ModelError as error:
            if not error.transient:
                raise
            first_failure: list[ModelError] = [error]

        # Tenacity costs 20 µs a call even when nothing fails, so it enters only now, and its first
        # attempt is the failure that has just happened.
        async def attempt() -> Completion:
            if first_failure:
                raise first_failure.pop()
            self._retries += 1
            return await self._call_once(question, request, mode)

        return await self._retrying(question)(attempt)

    def _retrying(self, question: _Question) -> AsyncRetrying:
        def stop(state: RetryCallState) -> bool:
            next_start_s = self._clock() + state.upcoming_sleep - question.started_s
            return state.attempt_number >= self._attempts_max or next_start_s > self._retry_total_s

        return AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, ModelError) and error.transient),
            wait=self._backoff_s,
            stop=stop,
            sleep=self._sleep,
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

    async def _call_once(self, question: _Question, request: ModelRequest, mode: SchemaMode) -> Completion:
        self._calls += 1
        question.attempts += 1
        if question.attempts > 1:
            request = replace(request, attempt=question.attempts)
        try:
            async with asyncio.timeout(self._timeout_s):
                completion = await self._provider.complete(request, mode)
        except TimeoutError:
            raise ModelTimeoutError(request.model, self._timeout_s) from None
        question.prompt_tokens += completion.prompt_tokens
        question.completion_tokens += completion.completion_tokens
        self._prompt_tokens += completion.prompt_tokens
        self._completion_tokens += completion.completion_tokens
        return completion
