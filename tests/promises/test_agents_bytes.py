"""What an agent costs its worker while nothing happens to it, and while it waits for its model."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path
from typing import Any

import numpy.ma
import pyarrow.parquet
import pytest
from ecumene.client import Event

from agent_runtime.agents.agent import Agent
from agent_runtime.turns.turn import Turn
from tests.unit.agent_runtime.players import Patient
from tests.unit.agent_runtime.stage import PLAYERS, make_launch, set_stage, wait_until

HERE = "tests.promises.test_agents_bytes"
AGENTS = 2_000
# The recorder's writer loads them when it first writes, and that would count as the agents'.
LOADED = (numpy.ma, pyarrow.parquet)
IDLE_BYTES_MAX = 1_024
# Of which a thousand are the task, and two thousand the question in the gateway.
WAITING_BYTES_MAX = 5_632


class Plain(Agent):
    """Reports, and remembers nothing, as most agents of a large population."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        turn.report(1.0)


def measure() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("kind", ["idle", "waiting"])
async def test_an_agent_costs_little(tmp_path: Path, kind: str) -> None:
    Patient.asking = 0
    model: dict[str, Any] = {"provider": "scripted", "answers": f"{PLAYERS}:answer_number", "timeout_s": 600.0}
    model |= {"latency": {"kind": "fixed", "ms": 1e7}, "in_flight_max": AGENTS, "queue_max": AGENTS}
    models = {"m": model} if kind == "waiting" else None
    agent = f"{HERE}:Plain" if kind == "idle" else f"{PLAYERS}:Patient"
    launch = make_launch(
        tmp_path, agent, [f"agent-{number}" for number in range(AGENTS)], models=models, resumable=True
    )
    async with set_stage(tmp_path, launch) as stage:
        # Never woken, they cost their rows alone: what a worker of its size costs is not theirs.
        tracemalloc.start(1)
        try:
            before = measure()
            stage.world.open_round(1)
            if kind == "idle":
                await stage.wait_turns(AGENTS)
            else:
                await wait_until(lambda: Patient.asking == AGENTS)
                for _ in range(20):
                    await asyncio.sleep(0)
            # What the world of this test keeps of them is not the worker's.
            stage.world.forget_all()
            await stage.pipeline.records.flush()
            cost = (measure() - before) / AGENTS
        finally:
            tracemalloc.stop()
    assert cost < (IDLE_BYTES_MAX if kind == "idle" else WAITING_BYTES_MAX), f"{cost:.0f} bytes an agent"
