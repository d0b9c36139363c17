"""The way from a turn to a model: a bounded queue, admission, time limit, retries, reading, cost."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from agent_runtime.llm.admission import Dispatch, Limit
from agent_runtime.llm.answers import Dialogue, ModeMemory
from agent_runtime.llm.calls import Calls
from agent_runtime.llm.costs import CallCosts
from agent_runtime.llm.endpoints import Endpoint, Pool
from agent_runtime.llm.endpoints.breaker import FAILURES_MAX
from agent_runtime.llm.errors import ModelCancelledError, ModelError
from agent_runtime.llm.histories import check_history
from agent_runtime.llm.provider import Provider
from agent_runtime.llm.questions import CompletionCache, Question
from agent_runtime.llm.requests import Answer, Completion, ModelRequest, SchemaMode
from agent_runtime.llm.retries import Retries
from agent_runtime.llm.spending import FREE, Price
from agent_runtime.llm.statistics import GatewayStatistics, read_endpoint
from agent_runtime.model.errors import BudgetExceededError
from agent_runtime.model.slots import Slots

Close = Callable[[Answer | ModelError | BudgetExceededError], None]
"""Is told what came of a question."""


class Gateway:
    """Asks one model on behalf of many agents.

    The model has one endpoint (a Provider) or several, each with a bound of calls in flight; the one with the
    least load is asked. `queue_max` further questions wait for their turn with their messages built; callers
    beyond that wait before theirs are. `limits` hold calls back: limits of a minute, budgets. Every `ask` ends: in an
    answer, in one ModelError, in BudgetExceededError, or in cancellation, which reaches the provider.

    A call may take `timeout_s` seconds. One that failed transiently is repeated after the time that
    the endpoint asked for, else after a jittered exponential delay, at most `attempts_max` times in
    all and as long as the next attempt would start within `retry_total_s` seconds of the first. While it backs
    off, others use its place at the endpoint. Permanent errors are not repeated. A question that would wait for
    endpoints that are all broken, beyond `retry_total_s`, fails at once.
    """

    def __init__(
        self,
        endpoints: Provider | Sequence[Endpoint],
        *,
        model: str = "model",
        in_flight_max: int = 64,
        queue_max: int = 1024,
        timeout_s: float = 60.0,
        attempts_max: int = 5,
        retry_total_s: float = 180.0,
        repairs_max: int = 1,
        is_two_call: bool = False,
        limits: Sequence[Limit] = (),
        price: Price = FREE,
        cache: CompletionCache | None = None,
        breaker_failures: int = FAILURES_MAX,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`in_flight_max` and `breaker_failures` are those of a single provider; endpoints have their own."""
        if in_flight_max < 1 or queue_max < 0 or attempts_max < 1 or repairs_max < 0:
            raise ValueError("in_flight_max and attempts_max start at 1, queue_max and repairs_max at 0")
        if not (timeout_s > 0 and retry_total_s >= 0):
            raise ValueError("timeout_s must be above 0 and retry_total_s at least 0")
        if not isinstance(endpoints, Sequence):
            endpoints = [Endpoint(endpoints, in_flight_max=in_flight_max, breaker_failures=breaker_failures)]
        self._model = model
        self._pool = Pool(endpoints)
        self._retry_total_s = retry_total_s
        self._repairs_max = repairs_max
        self._is_two_call = is_two_call
        self._limits = tuple(limits)
        self._cache = cache
        self._clock = clock
        self._modes = ModeMemory()
        self._costs = CallCosts(price, is_estimated=bool(limits))
        self._places_max = sum(endpoint.in_flight_max for endpoint in endpoints) + queue_max
        self._places = Slots(self._places_max)
        self._dispatch = Dispatch(model, self._pool, limits, clock)
        self._calls = Calls(self._dispatch, self._costs, timeout_s=timeout_s, retry_total_s=retry_total_s)
        self._retries = Retries(
            self._calls.make_again,
            attempts_max=attempts_max,
            total_s=retry_total_s,
            clock=clock,
            sleep=sleep,
            jitter=jitter,
        )
        self._held_back = self._answers = self._cached = 0
        self._failures: Counter[str] = Counter()
        for limit in self._limits:
            limit.attach(self._dispatch.pump, lambda: self._dispatch.waiting)

    async def ask(
        self,
        request: ModelRequest | Callable[[], ModelRequest],
        close: Close | None = None,
    ) -> Answer:
        """Returns the model's answer, validated against the request's answer type.

        A callable is asked for the request only when the queue has room, so that a crowd of waiting
        agents holds no prompts. `close` is told what came of it; of one that is cancelled, a ModelCancelledError with
        what it had cost.

        Raises:
            ModelError: one of its classes, each with the turn status it gives and what it had cost.
            BudgetExceededError: what is left of a budget does not pay for the call.
        """
        # One coroutine for all of it: each further one would cost every waiting agent half a kilobyte.
        if (waiter := self._places.enter()) is not None:
            await self._wait_for_place(waiter, close)
        question: Question | None = None
        try:
            if not isinstance(request, ModelRequest):
                request = request()
            check_history(request.model, request.messages)
            dialogue = Dialogue(request, self._modes, repairs_max=self._repairs_max, is_two_call=self._is_two_call)
            question = Question(dialogue)
            del request
            while True:
                completion = await self._find_cached(dialogue) if self._cache is not None else None
                if completion is None:
                    load = self._costs.estimate(question)
                    try:
                        permit = self._dispatch.try_acquire(load)
                        if permit is None:
                            permit = await self._dispatch.acquire(load, self._clock() + self._retry_total_s)
                        with self._calls.begin(question, permit) as call:
                            completion = await permit.endpoint.provider.complete(call.request, dialogue.mode)
                            call.completion = completion
                    except ModelError as error:
                        completion = await self._retries.recover(question, error)
                    if self._cache is not None:
                        question.note_for_cache(completion)
                if dialogue.take(completion):
                    if self._cache is not None:
                        await question.keep_in(self._cache)
                    answer = question.make_answer(self._clock())
                    self._answers += 1
                    self._cached += answer.cached
                    if close is not None:
                        close(answer)
                    return answer
        except asyncio.CancelledError:
            self._note_cancel(question, close)
            raise
        except (ModelError, BudgetExceededError) as error:
            self._note_failure(question, error)
            if close is not None:
                close(error)
            raise
        finally:
            self._places.release()

    def estimate_prompt_tokens(self, request: ModelRequest) -> int:
        """Tokens that a request will take to send, as the endpoint is likely to count; see `tokens`."""
        return self._costs.estimate_prompt_tokens(request)

    @property
    def endpoints(self) -> int:
        """How many there are."""
        return len(self._pool.endpoints)

    def widen(self, in_flight_max: Sequence[int], queue_max: int) -> None:
        """Let endpoints, in their order, take more calls at a time, and more questions wait; never fewer."""
        for endpoint, most in zip(self._pool.endpoints, in_flight_max, strict=True):
            endpoint.widen(most)
        places = sum(endpoint.in_flight_max for endpoint in self._pool.endpoints) + queue_max
        for _ in range(places - self._places_max):
            self._places.release()
        self._places_max = max(places, self._places_max)
        self._dispatch.pump()

    def statistics(self) -> GatewayStatistics:
        """Returns a snapshot."""
        costs = self._costs
        return GatewayStatistics(
            in_flight=self._pool.in_flight,
            waiting=self._dispatch.waiting,
            backing_off=self._retries.backing_off,
            held_back=self._held_back,
            answers=self._answers,
            cached=self._cached,
            failures=dict(self._failures),
            calls=costs.calls,
            retries=self._retries.done,
            prompt_tokens=costs.prompt_tokens,
            completion_tokens=costs.completion_tokens,
            microdollars=costs.microdollars,
            endpoints=tuple(read_endpoint(endpoint, self._clock()) for endpoint in self._pool.endpoints),
        )

    def schema_modes(self) -> dict[str, SchemaMode]:
        """Returns the schema mode that each `model/TypeName` was found to accept."""
        return self._modes.accepted()

    async def give_back(self) -> None:
        """Gives back what is left of shared limits, all at once; what is cut short is not tried again. End the asking
        tasks first: nobody is asked any more."""
        self._calls.close()
        await asyncio.gather(*(limit.aclose() for limit in self._limits))

    async def aclose(self) -> None:
        """Closes the endpoints, and gives back what is left of shared limits. End the asking tasks first: calls in
        flight fail. May be called twice."""
        await self.give_back()
        for endpoint in self._pool.endpoints:
            await endpoint.provider.aclose()
        if self._cache is not None:
            await self._cache.aclose()

    async def _find_cached(self, dialogue: Dialogue) -> Completion | None:
        return None if self._cache is None else await self._cache.find(dialogue.request, dialogue.mode)

    async def _wait_for_place(self, waiter: asyncio.Future[None], close: Close | None) -> None:
        self._held_back += 1
        try:
            await waiter
        except asyncio.CancelledError:
            self._places.give_up(waiter)
            self._note_cancel(None, close)
            raise
        finally:
            self._held_back -= 1

    def _note_cancel(self, question: Question | None, close: Close | None) -> None:
        if close is None:
            self._failures["cancelled"] += 1
            return
        cancelled = ModelCancelledError(self._model)
        self._note_failure(question, cancelled)
        close(cancelled)

    def _note_failure(self, question: Question | None, error: ModelError | BudgetExceededError) -> None:
        self._failures["budget" if isinstance(error, BudgetExceededError) else error.status] += 1
        if question is not None:
            question.charge(error, self._clock())
