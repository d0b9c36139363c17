"""Code that holds up the loop is found, and its agent is named; code that waits as it should is left alone."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import threading
import time
from pathlib import Path

import pytest
from ecumene.client import Event

from agent_runtime.agents.agent import Agent
from agent_runtime.turns import stalls
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
            found = stage.pipeline.stalls
    assert stage.statuses == {"ok": 3}
    assert set(found.longest_s) == {"blocks-1"} and found.stalls >= 1
    assert BLOCKED_S / 2 < found.longest_s["blocks-1"] < BLOCKED_S * 5
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
        found = stage.pipeline.stalls
    assert stage.statuses == {"ok": 3} and first_s < BLOCKED_S
    assert not found.longest_s


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


class Waits:
    """Of a thread for a core: all of the time, or none."""

    def __init__(self, share: float) -> None:
        self._share = share

    def __call__(self, native_id: int) -> float:
        assert native_id == threading.main_thread().native_id
        return time.monotonic() * self._share


@pytest.mark.parametrize(("share", "count"), [(0.0, 1), (0.1, 1), (0.95, 0), (1.0, 0)])
async def test_nobody_is_to_blame_for_a_machine_that_has_no_core_for_the_loop(share: float, count: int) -> None:
    told: list[Stall] = []
    watch = StallWatch(0.1, told.append, look_s=0.01, core_wait_s=Waits(share))
    watch.start()

    async def block() -> None:
        await asyncio.sleep(0.05)
        json.loads("1", object_hook=None, cls=Slow)
        await asyncio.sleep(0.05)

    await asyncio.create_task(block(), name="turn of slow-1")
    await asyncio.to_thread(watch.stop)
    assert len(told) == count
    # The line of whoever called what is installed, not of that.
    assert all(stall.agent == "slow-1" and "test_stalls.py:" in stall.place for stall in told)


class Slow(json.JSONDecoder):
    def decode(self, s: str, _w: object = None) -> object:  # type: ignore[override]
        return subprocess.run(["sleep", "0.6"], check=True)


def test_the_wait_for_a_core_is_read_where_it_is_counted_and_nothing_else() -> None:
    own = stalls.read_core_wait_s(threading.get_native_id())
    assert 0.0 <= own < 1e6
    assert stalls.read_core_wait_s(2**30) == 0.0
