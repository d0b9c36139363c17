"""Code that holds up the loop is found, and its agent is named; code that waits as it should is left alone."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path

import pytest
from ecumene.client import Event

from agent_runtime.agents.agent import Agent
from agent_runtime.turns.stalls import Stall, StallWatch
from agent_runtime.turns.turn import Turn
from tests.unit.agent_runtime.stage import make_launch, set_stage

HERE = "tests.unit.agent_runtime.turns.test_stalls"
BLOCKED_S = 0.6


class Sleeper(Agent):
    """Waits as its id says: `blocks`, `threads`, or not at all."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        if self.id.startswith("blocks"):
            time.sleep(BLOCKED_S)  # noqa: ASYNC251 - what is tested
        if self.id.startswith("threads"):
            assert await turn.in_thread(self.work, 2, times=3) == 6
        turn.report(1.0)

    def work(self, number: int, *, times: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        time.sleep(BLOCKED_S)
        return number * times


async def test_an_agent_that_blocks_is_told_by_name_and_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ids = ["blocks-1", "quick-1", "quick-2"]
    with caplog.at_level(logging.WARNING, "ecumene.runtime"):
        async with set_stage(tmp_path, make_launch(tmp_path, f"{HERE}:Sleeper", ids)) as stage:
            stage.world.open_round()
            await stage.wait_turns(3)
            stalls = stage.pipeline.stalls
    assert stage.statuses == {"ok": 3}
    assert set(stalls.longest_s) == {"blocks-1"} and stalls.stalls >= 1
    assert BLOCKED_S / 2 < stalls.longest_s["blocks-1"] < BLOCKED_S * 5
    (told,) = [record.getMessage() for record in caplog.records if "held up" in record.getMessage()]
    assert "agent blocks-1" in told and "test_stalls.py:" in told and "in_thread" in told


async def test_blocking_code_in_a_thread_holds_up_nobody(tmp_path: Path) -> None:
    ids = ["threads-1", "threads-2", "quick-1"]
    begun_s = time.monotonic()
    async with set_stage(tmp_path, make_launch(tmp_path, f"{HERE}:Sleeper", ids)) as stage:
        stage.world.open_round()
        await stage.wait_turns(1)
        first_s = time.monotonic() - begun_s
        assert set(stage.world.reports()) == {"quick-1"}
        await stage.wait_turns(3)
        stalls = stage.pipeline.stalls
    assert stage.statuses == {"ok": 3} and first_s < BLOCKED_S
    assert not stalls.longest_s


async def test_a_thread_whose_turn_is_over_is_not_waited_for(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, f"{HERE}:Sleeper", ["threads-1"], turn_timeout_s=0.05)
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round()
        await stage.wait_turns(1)
    assert stage.statuses == {"timeout": 1}


async def test_a_stall_that_is_no_agents_is_told_of_nobody() -> None:
    told: list[Stall] = []
    watch = StallWatch(0.05, told.append, look_s=0.01)
    watch.start()
    await asyncio.sleep(0.05)
    time.sleep(0.3)  # noqa: ASYNC251 - what is tested
    await asyncio.sleep(0.05)
    await asyncio.to_thread(watch.stop)
    assert not told and watch.stalls == 0
