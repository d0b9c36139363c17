"""Admission, retries in attempts and time, cancellation, statistics: on simulated time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from agent_runtime.llm import (
    Answer,
    Completion,
    Gateway,
    Message,
    ModelEndpointError,
    ModelError,
    ModelParseError,
    ModelRequest,
    ModelTimeoutError,
    ModelUnavailableError,
    SchemaMode,
)
from agent_runtime.llm.errors import ModelCancelledError
from agent_runtime.llm.providers.scripted import FaultRates, ScriptedProvider
from agent_runtime.model.draws import Draw
from tests.simulated_time import now_s, simulated
from tests.unit.agent_runtime.llm.providers_of_tests import Answering


class Guess(BaseModel):
    number: int


def ask_as(agent: str, answer_type: type[BaseModel] | None = None) -> ModelRequest:
    return ModelRequest(agent, 1, 0, "m", (Message("user", "Pick."),), answer_type)


class Time:
    """A clock that stands still except in sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept_s: list[float] = []

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds
        await asyncio.sleep(0)


class Outcomes:
    """A provider that gives the listed outcomes in order, then `ok`."""

    def __init__(self, *outcomes: Exception) -> None:
        self.outcomes = list(outcomes)
        self.attempts: list[int] = []

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        self.attempts.append(request.attempt)
        await asyncio.sleep(0)
        if self.outcomes:
            raise self.outcomes.pop(0)
        return Completion("ok", "stop", 3, 2, "m")

    async def aclose(self) -> None:
        """Nothing to release."""


class Closed:
    """A provider whose calls wait for the gate."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.inside = self.inside_peak = self.cancelled = 0

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        self.inside += 1
        self.inside_peak = max(self.inside, self.inside_peak)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.inside -= 1
        return Completion("ok", "stop", 1, 1, "m")

    async def aclose(self) -> None:
        """Nothing to release."""


def make_gateway(provider: Any, time: Time, **options: Any) -> Gateway:
    return Gateway(provider, clock=time.clock, sleep=time.sleep, jitter=lambda: 1.0, **options)


def unavailable(retry_after_s: float | None = None) -> ModelUnavailableError:
    return ModelUnavailableError("m", "h:1", "busy", http_status=429, retry_after_s=retry_after_s)


async def test_transient_failures_back_off_and_the_answer_tells_what_it_cost() -> None:
    time, provider = Time(), Outcomes(unavailable(), ModelTimeoutError("m", 1), unavailable())
    gateway = make_gateway(provider, time)
    answer = await gateway.ask(ask_as("a"))
    assert (answer.text, answer.attempts, answer.prompt_tokens) == ("ok", 4, 3)
    assert time.slept_s == [0.5, 1.0, 2.0]
    assert answer.latency_ms == pytest.approx(3500)
    assert provider.attempts == [1, 2, 3, 4]
    statistics = gateway.statistics()
    assert (statistics.calls, statistics.retries, statistics.answers) == (4, 3, 1)
    assert statistics.failures == {}


async def test_the_endpoint_is_given_the_time_it_asked_for() -> None:
    time = Time()
    await make_gateway(Outcomes(unavailable(3.0)), time).ask(ask_as("a"))
    assert time.slept_s == [pytest.approx(3.3)]


async def test_attempts_are_capped() -> None:
    time, provider = Time(), Outcomes(*(unavailable() for _ in range(99)))
    gateway = make_gateway(provider, time, attempts_max=3)
    with pytest.raises(ModelUnavailableError) as caught:
        await gateway.ask(ask_as("a"))
    assert (caught.value.attempts, provider.attempts) == (3, [1, 2, 3])
    assert gateway.statistics().failures == {"error": 1}


async def test_time_is_capped_and_a_hopeless_wait_is_not_begun() -> None:
    time, provider = Time(), Outcomes(*(unavailable() for _ in range(99)))
    with pytest.raises(ModelUnavailableError):
        await make_gateway(provider, time, attempts_max=99, retry_total_s=10).ask(ask_as("a"))
    assert sum(time.slept_s) <= 10 < sum(time.slept_s) + 2 * time.slept_s[-1]

    time = Time()
    with pytest.raises(ModelUnavailableError):
        await make_gateway(Outcomes(unavailable(3600)), time, retry_total_s=10).ask(ask_as("a"))
    assert time.slept_s == []


async def test_permanent_errors_are_not_repeated() -> None:
    provider = Outcomes(ModelEndpointError("m", "h:1", 401, "key"))
    with pytest.raises(ModelEndpointError) as caught:
        await make_gateway(provider, Time()).ask(ask_as("a"))
    assert (caught.value.status, caught.value.attempts) == ("error", 1)


async def test_a_call_that_hangs_ends_in_time_and_frees_its_place() -> None:
    provider = Closed()
    gateway = make_gateway(provider, Time(), timeout_s=0.02, attempts_max=2, in_flight_max=1)
    with pytest.raises(ModelTimeoutError) as caught:
        await gateway.ask(ask_as("a"))
    assert (caught.value.status, caught.value.attempts, provider.cancelled) == ("timeout", 2, 2)
    provider.gate.set()
    assert (await gateway.ask(ask_as("b"))).text == "ok"


async def test_places_are_bounded_and_prompts_of_those_held_back_are_not_built() -> None:
    provider, built = Closed(), []

    def build(agent: int) -> ModelRequest:
        built.append(agent)
        return ask_as(f"a{agent}")

    gateway = make_gateway(provider, Time(), in_flight_max=3, queue_max=5)
    asks = [
        asyncio.create_task(gateway.ask(lambda agent=agent: build(agent)), name=f"ask-{agent}") for agent in range(20)
    ]
    await settle()
    statistics = gateway.statistics()
    assert (statistics.in_flight, statistics.waiting, statistics.held_back) == (3, 5, 12)
    assert built == list(range(8))
    provider.gate.set()
    answers = await asyncio.gather(*asks)
    assert len(answers) == 20
    assert provider.inside_peak == 3
    assert gateway.statistics().in_flight == gateway.statistics().held_back == 0


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_cancellation_works_in_flight_in_the_queue_and_before_it(place: int) -> None:
    provider = Closed()
    gateway = make_gateway(provider, Time(), in_flight_max=1, queue_max=1)
    asks = [asyncio.create_task(gateway.ask(ask_as(f"a{i}")), name=f"ask-{i}") for i in range(3)]
    await settle()
    asks[place].cancel()
    await settle()
    provider.gate.set()
    results = await asyncio.gather(*asks, return_exceptions=True)
    assert [isinstance(result, Answer) for result in results] == [i != place for i in range(3)]
    assert provider.cancelled == (1 if place == 0 else 0)
    statistics = gateway.statistics()
    assert (statistics.answers, statistics.failures) == (2, {"cancelled": 1})
    assert (statistics.in_flight, statistics.waiting, statistics.held_back) == (0, 0, 0)


async def test_cancellation_ends_a_backoff() -> None:
    async def sleep_for_ever(seconds: float) -> None:
        await asyncio.Event().wait()

    gateway = Gateway(Outcomes(unavailable()), sleep=sleep_for_ever)
    ask = asyncio.create_task(gateway.ask(ask_as("a")), name="ask")
    await settle()
    ask.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ask
    assert gateway.statistics().in_flight == 0


async def test_a_failing_builder_frees_its_place() -> None:
    gateway = make_gateway(Outcomes(), Time(), in_flight_max=1, queue_max=0)

    def broken() -> ModelRequest:
        raise KeyError("persona")

    for _ in range(3):
        with pytest.raises(KeyError):
            await gateway.ask(broken)
    assert (await gateway.ask(ask_as("a"))).text == "ok"


@simulated
async def test_of_ten_thousand_questions_to_a_bad_model_each_ends_once(seed: int) -> None:
    def answer(request: ModelRequest, draw: Draw) -> Guess:
        return Guess(number=draw.randrange(101))

    faults = FaultRates(timeout=0.002, unavailable=0.1, garbage=0.1, truncated=0.1, refused=0.05)
    provider = ScriptedProvider(answer, seed=seed, faults=faults)
    gateway = Gateway(provider, clock=now_s, timeout_s=0.05, in_flight_max=500, retry_total_s=1e9)
    total = 10_000
    results = await asyncio.gather(*(gateway.ask(ask_as(f"a{i}", Guess)) for i in range(total)), return_exceptions=True)
    answers = [result for result in results if isinstance(result, Answer)]
    errors = [result for result in results if isinstance(result, ModelError)]
    assert len(answers) + len(errors) == total
    assert {"parse_error", "truncated", "refused"} <= {error.status for error in errors}
    statistics = gateway.statistics()
    assert statistics.answers == len(answers)
    assert sum(statistics.failures.values()) == len(errors)
    assert statistics.calls == sum(result.attempts for result in [*answers, *errors])
    # Of those not refused at once (5.6 %) or cut or garbled twice (2 × 11.1 % × 27.8 %).
    assert 0.86 < len(answers) / total < 0.9
    assert all(error.latency_ms >= 0 and error.attempts >= 1 for error in errors)


async def test_the_repair_is_counted_and_its_failure_carries_the_cost() -> None:
    provider = ScriptedProvider(lambda request, draw: "no number today")
    gateway = make_gateway(provider, Time())
    with pytest.raises(ModelParseError) as caught:
        await gateway.ask(ask_as("a", Guess))
    assert caught.value.attempts == 2
    assert caught.value.completion_tokens == gateway.statistics().completion_tokens > 0


@pytest.mark.parametrize("bad", [{"in_flight_max": 0}, {"queue_max": -1}, {"timeout_s": 0}, {"attempts_max": 0}])
def test_limits_without_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Gateway(Outcomes(), **bad)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("place", ["out", "queue", "held", "backoff"])
async def test_a_question_that_is_cancelled_tells_what_it_has_cost(place: str) -> None:
    provider = Answering(delay_s=1e7)
    if place == "backoff":
        provider.delay_s = 0.0
        provider.failing = ModelUnavailableError("m", "e", "down")
    gateway = Gateway(provider, in_flight_max=1, queue_max=0 if place == "held" else 1, model="m")
    told: list[Any] = []

    async def ask(number: int) -> None:
        await gateway.ask(lambda: ModelRequest(f"a{number}", 1, 0, "m", (Message("user", "Pick."),)), told.append)

    asks = [asyncio.create_task(ask(number), name=f"ask-{number}") for number in range(1 if place == "out" else 2)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert not told
    asks[-1].cancel()
    await asyncio.gather(asks[-1], return_exceptions=True)
    assert [(type(one), one.status, one.attempts) for one in told] == [
        (ModelCancelledError, "cancelled", {"out": 1, "backoff": 1}.get(place, 0))
    ]
    for one in asks:
        one.cancel()
    await asyncio.gather(*asks, return_exceptions=True)
    assert len(told) == len(asks)
    assert gateway.statistics().failures == {"cancelled": len(asks)}
    await gateway.aclose()
