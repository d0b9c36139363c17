"""The scripted provider: deterministic answers, injected faults."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from pydantic import BaseModel

from agent_runtime.llm import Completion, Message, ModelRequest, ModelUnavailableError, SchemaMode
from agent_runtime.llm.latency import FixedLatency, LognormalLatency
from agent_runtime.llm.providers.scripted import FaultRates, ScriptedAnswer, ScriptedProvider
from agent_runtime.llm.testing import check_llm_provider
from agent_runtime.model.draws import Draw


class Guess(BaseModel):
    number: float


def answer(request: ModelRequest, draw: Draw) -> ScriptedAnswer:
    return Guess(number=draw.uniform(0, 100))


def ask_as(agent: str, *, attempt: int = 1) -> ModelRequest:
    return ModelRequest(agent, 7, 0, "script", (Message("user", "Pick a number."),), Guess, attempt=attempt)


async def test_it_is_a_provider() -> None:
    async def make() -> ScriptedProvider:
        return ScriptedProvider(answer, latency=FixedLatency(1))

    await check_llm_provider(make, ask_as("a"))


async def test_answers_belong_to_the_question_whatever_order_latency_or_attempt() -> None:
    async def texts(provider: ScriptedProvider, agents: str, attempt: int = 1) -> dict[str, str]:
        asked = [provider.complete(ask_as(a, attempt=attempt), SchemaMode.JSON_SCHEMA) for a in agents]
        return {a: done.text for a, done in zip(agents, await asyncio.gather(*asked), strict=True)}

    plain = await texts(ScriptedProvider(answer, seed=1), "abcd")
    assert len(set(plain.values())) == 4
    assert await texts(ScriptedProvider(answer, seed=1, latency=LognormalLatency(2, 1)), "dcba") == plain
    assert await texts(ScriptedProvider(answer, seed=1), "abcd", attempt=2) == plain
    assert await texts(ScriptedProvider(answer, seed=2), "abcd") != plain


async def test_faults_come_at_their_rates_and_differ_between_attempts() -> None:
    provider = ScriptedProvider(answer, faults=FaultRates(unavailable=0.1, garbage=0.1, truncated=0.1, refused=0.1))

    async def outcome(attempt: int, agent: int) -> str:
        try:
            done = await provider.complete(ask_as(f"a{agent}", attempt=attempt), SchemaMode.JSON_SCHEMA)
        except ModelUnavailableError:
            return "unavailable"
        return describe(done)

    first = [await outcome(1, agent) for agent in range(3000)]
    assert first == [await outcome(1, agent) for agent in range(3000)]
    counts = Counter(first)
    assert set(counts) == {"ok", "garbage", "truncated", "refused", "unavailable"}
    for fault in set(counts) - {"ok"}:
        assert 230 < counts[fault] < 370  # 300 ± 4 standard deviations
    second = [await outcome(2, agent) for agent in range(3000)]
    assert sum(a != "ok" and b != "ok" for a, b in zip(first, second, strict=True)) < 600


def describe(done: Completion) -> str:
    if done.finish_reason == "length":
        return "truncated"
    if done.finish_reason == "content_filter":
        return "refused"
    return "ok" if "{" in done.text else "garbage"


async def test_a_timeout_fault_never_answers_and_can_be_cancelled() -> None:
    provider = ScriptedProvider(answer, faults=FaultRates(timeout=1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await provider.complete(ask_as("a"), SchemaMode.JSON_SCHEMA)


@pytest.mark.parametrize("value", ["x", {"number": 1}, Guess(number=1)])
async def test_text_mappings_and_models_are_answers(value: ScriptedAnswer) -> None:
    provider = ScriptedProvider(lambda request, draw: value)
    done = await provider.complete(replace(ask_as("a"), answer_type=None), SchemaMode.TEXT)
    assert done.text == (value if isinstance(value, str) else done.text)
    assert (done.prompt_tokens, done.finish_reason) == (4, "stop")


@pytest.mark.parametrize("rates", [{"timeout": 1.1}, {"garbage": -0.1}, {"garbage": 0.6, "refused": 0.6}])
def test_impossible_rates_are_refused(rates: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        FaultRates(**rates)
