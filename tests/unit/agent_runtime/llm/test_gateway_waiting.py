"""What a waiting agent costs in the gateway."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

import pytest

from agent_runtime.llm import Answer, Gateway, Message, ModelRequest
from agent_runtime.llm.latency import FixedLatency
from agent_runtime.llm.providers.scripted import ScriptedProvider

AGENTS = 2_000
MESSAGES = (Message("user", "Pick a number."),)
# A task that awaits one future takes a thousand bytes of them.
BYTES_MAX = 3_072


@pytest.mark.parametrize(
    ("in_flight_max", "queue_max"), [(AGENTS, 0), (1, AGENTS), (1, 1)], ids=["out", "queue", "held"]
)
async def test_an_agent_that_waits_costs_little(in_flight_max: int, queue_max: int) -> None:
    provider = ScriptedProvider(lambda request, draw: "ok", latency=FixedLatency(1e7))
    gateway = Gateway(provider, in_flight_max=in_flight_max, queue_max=queue_max)

    def ask(number: int) -> asyncio.Task[Answer]:
        question = gateway.ask(lambda: ModelRequest(f"agent-{number}", 1, 0, "m", MESSAGES))
        return asyncio.create_task(question, name=f"ask-{number}")

    first = ask(0)
    await settle()
    gc.collect()
    tracemalloc.start(1)
    try:
        before = tracemalloc.get_traced_memory()[0]
        asks = [ask(number) for number in range(1, AGENTS)]
        await settle()
        cost = (tracemalloc.get_traced_memory()[0] - before) / len(asks)
    finally:
        tracemalloc.stop()
    assert cost < BYTES_MAX
    for one in (first, *asks):
        one.cancel()
    await asyncio.gather(first, *asks, return_exceptions=True)
    statistics = gateway.statistics()
    assert (statistics.in_flight, statistics.waiting, statistics.held_back) == (0, 0, 0)
    await gateway.aclose()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
