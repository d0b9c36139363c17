"""The provider `vllm` on real engines: answers, shapes, seeds, and what happens when one of them dies.

The same tests run on the CPU build and on a GPU; see docs/models.md. `make test-long PART=vllm`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, NoReturn, Self

import psutil
import pytest
import pytest_asyncio

from agent_runtime.llm import Gateway, ModelBrokenError, ModelUnavailableError, SchemaMode
from agent_runtime.llm.endpoints import BreakerState, Endpoint
from agent_runtime.llm.providers.vllm import VllmEngine, open_engines
from agent_runtime.llm.settings import VllmSettings
from agent_runtime.llm.testing import check_llm_provider
from tests.foreign.vllm import answering
from tests.foreign.vllm.answering import LONG_TOKENS, Guess, ask
from tests.foreign.vllm.builds import Build, find_build
from tests.foreign.vllm.engine_processes import find_engines, kill, wait_ended
from tests.foreign.vllm.models import SMOLLM2, TINY

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1800)]

PATIENT_S = 900.0
SEQUENCES = 4
QUESTIONS = 24


@pytest.fixture(scope="module")
def build(missing_toolchain: Callable[[str], NoReturn]) -> Build:
    return find_build(missing_toolchain)


def settings(build: Build, engines: int = 1, **arguments: object) -> VllmSettings:
    return VllmSettings(engines=engines, gpus=build.gpus, arguments={**build.arguments, **arguments})


class Started(NamedTuple):
    """An engine, and the longest time that the loop was away while it started."""

    engine: VllmEngine
    process: psutil.Process
    longest_step_s: float


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started(build: Build) -> AsyncIterator[Started]:
    """One engine of the tiny model, shared by all tests that need one only: its start is most of what they take."""
    before = find_engines()
    async with LongestStep() as steps:
        (engine,) = await open_engines(build.model(TINY), settings(build))
    (process,) = find_engines() - before
    yield Started(engine, process, steps.longest_s)
    await engine.aclose()
    wait_ended()
    assert find_engines() == before


@pytest.fixture(scope="module")
def engine(started: Started) -> VllmEngine:
    return started.engine


async def test_the_loop_goes_on_while_an_engine_starts(started: Started) -> None:
    # A worker keeps its lease meanwhile; what vllm imports holds the interpreter's lock for a while.
    assert started.longest_step_s < 5.0


async def test_free_text_is_bounded_and_counted(build: Build, engine: VllmEngine) -> None:
    model = build.model(TINY)
    request = ask(model, temperature=1.0, max_tokens=24)
    await answering.check_free_text(engine, request, answering.count_prompt_tokens(model, request))


async def test_shapes_are_kept_in_a_crowd(build: Build, engine: VllmEngine) -> None:
    await answering.check_shapes(engine, build.model(TINY))


async def test_seeds_decide(build: Build, engine: VllmEngine) -> None:
    await answering.check_seeds(engine, build.model(TINY))


async def test_what_never_fits_is_refused_once(build: Build, engine: VllmEngine) -> None:
    await answering.check_refusals(engine, build.model(TINY))


async def test_an_engine_that_is_killed_mid_turn_comes_back_and_one_that_cannot_is_left_alone(
    build: Build, started: Started
) -> None:
    """The last one that uses the shared engine."""
    model, engine = build.model(TINY), started.engine
    gateway = Gateway(engine, in_flight_max=8, timeout_s=PATIENT_S, retry_total_s=PATIENT_S)
    questions = [ask(model, f"a{number}", answer_type=Guess) for number in range(8)]
    calls = [asyncio.create_task(gateway.ask(each), name=each.agent_id) for each in questions]
    cut = asyncio.create_task(engine.complete(ask(model, max_tokens=LONG_TOKENS), SchemaMode.TEXT), name="cut")
    await asyncio.sleep(0.05)
    kill(started.process)
    with pytest.raises(ModelUnavailableError, match="engine failed"):
        await cut
    answers = await asyncio.gather(*calls)
    assert all(isinstance(answer.value, Guess) for answer in answers)

    impatient = Gateway(engine, attempts_max=3, retry_total_s=2.0, breaker_failures=2, timeout_s=PATIENT_S)
    engine._model = build.model("removed meanwhile")
    for process in find_engines():
        kill(process)
    for _ in range(2):
        with pytest.raises((ModelUnavailableError, ModelBrokenError)) as caught:
            await impatient.ask(ask(model, answer_type=Guess))
        assert caught.value.status == "error", "what a turn's fallback stands in for"
    assert impatient.statistics().endpoints[0].breaker is not BreakerState.CLOSED
    await gateway.aclose()
    wait_ended()


async def test_of_two_engines_one_dies_mid_turn_and_the_other_goes_on(build: Build) -> None:
    model = build.model(TINY)
    before = find_engines()
    first, second = await open_engines(model, settings(build, engines=2, max_num_seqs=SEQUENCES))
    await answering.check_cancellation(first, model, SEQUENCES)
    victim = min(find_engines() - before, key=lambda process: process.create_time())
    endpoints = [Endpoint(each, name=name, in_flight_max=8) for each, name in ((first, "first"), (second, "second"))]
    gateway = Gateway(endpoints, timeout_s=PATIENT_S, retry_total_s=PATIENT_S)
    try:
        requests = [ask(model, f"a{number}", answer_type=Guess, max_tokens=60) for number in range(QUESTIONS)]
        calls = [asyncio.create_task(gateway.ask(each), name=each.agent_id) for each in requests]
        while endpoints[0].answers < 2:  # noqa: ASYNC110 - an engine is waited for
            await asyncio.sleep(0.005)
        kill(victim)
        answers = await asyncio.gather(*calls)
        assert all(isinstance(answer.value, Guess) for answer in answers)
        told = {one.name: one for one in gateway.statistics().endpoints}
        assert told["first"].failures >= 1
        assert told["second"].failures == 0
        assert told["second"].answers + told["first"].answers == QUESTIONS
        # It comes back by itself, and its breaker lets calls through again.
        deadline_s = time.monotonic() + PATIENT_S
        answered = endpoints[0].answers
        while endpoints[0].answers == answered:
            assert time.monotonic() < deadline_s
            await gateway.ask(ask(model, answer_type=Guess, max_tokens=60))
            await asyncio.sleep(0.2)
        assert endpoints[0].breaker.state(time.monotonic()) is BreakerState.CLOSED
    finally:
        await gateway.aclose()
        wait_ended()
    assert find_engines() == before


async def test_it_keeps_the_protocol_and_a_real_model_makes_sense(build: Build) -> None:
    model = build.model(SMOLLM2)

    async def open_one() -> VllmEngine:
        (opened,) = await open_engines(model, settings(build))
        return opened

    await check_llm_provider(open_one, ask(model, answer_type=Guess, max_tokens=40, temperature=0.0))
    wait_ended()


class LongestStep:
    """The longest time that the loop was away while this was entered."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._watch(), name="longest step")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            began_s = time.monotonic()
            await asyncio.sleep(0.05)
            self.longest_s = max(self.longest_s, time.monotonic() - began_s - 0.05)
