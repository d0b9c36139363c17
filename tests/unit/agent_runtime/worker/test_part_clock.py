"""When a part has something to do, as a clock that waits for it is told."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent_runtime.turns import standstill
from tests.unit.agent_runtime.clocked import TIMER, clocked, look, settle, sleepers
from tests.unit.agent_runtime.fake_world import FakeEnvironment
from tests.unit.agent_runtime.players import Daily
from tests.unit.agent_runtime.stage import set_stage, wait_until


async def test_a_part_is_idle_once_all_that_its_turns_do_is_sent_and_its_cursor_waits_for_answers(
    tmp_path: Path,
) -> None:
    Daily.asked.clear()
    world = clocked()
    async with set_stage(tmp_path, sleepers(tmp_path, ["day-0"], "Daily"), world) as stage:
        part = stage.pipeline.parts["g.0"]
        await settle(part)
        world.hold_answers = True
        world.advance(100)
        await wait_until(lambda: world.held)
        await settle(part)
        fired = world.emitted[-1][0]
        assert look(part) == (False, fired, 160) and world.timers == {TIMER: 160}
        assert part.through < fired
        # Who is due again before the world has answered waits for that, and is woken by that very firing.
        world.advance(160)
        for _ in range(20):
            await asyncio.sleep(0)
        assert Daily.asked == [(["day-0"], [100])] and not world.timers and look(part).consumed_revision == fired
        world.release_answers()
        await stage.wait_turns(2)
        await settle(part)
        assert look(part) == (False, world.emitted[-1][0], 220) and part.through >= fired
    assert [(row["turn"], row["sim_time_ns"]) for row in stage.read("turns")] == [(1, 100), (2, 160)]


async def test_a_part_is_busy_while_its_turns_decide_and_while_the_timer_is_not_on_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = clocked()
    async with set_stage(tmp_path, sleepers(tmp_path, ["day-0"], "Daily"), world) as stage:
        part = stage.pipeline.parts["g.0"]
        await settle(part)
        asked = asyncio.Event()

        async def wait(self: FakeEnvironment) -> None:
            asked.set()
            await asyncio.get_running_loop().create_future()

        monkeypatch.setattr(FakeEnvironment, "describe", wait)
        world.advance(100)
        await asked.wait()
        assert look(part).is_busy and look(part).consumed_revision < world.emitted[-1][0]


async def test_agents_who_are_woken_for_ever_behind_their_clock_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(standstill, "TOLD_AT", 20)
    world = clocked()
    async with set_stage(tmp_path, sleepers(tmp_path, ["day-0"], "Daily"), world) as stage:
        await settle(stage.pipeline.parts["g.0"])
        world.advance(10**6)
        await wait_until(lambda: "never catch up" in caplog.text)
