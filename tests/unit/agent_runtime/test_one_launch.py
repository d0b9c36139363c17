"""The end of a launch whose agents live by clocks, with its world and without it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from ecumene.client import Clock, connect
from ecumene.client.waking import name_timer

from agent_runtime.model.parts import Part
from agent_runtime.one_launch import ClockLeave
from agent_runtime.settings import Launch
from agent_runtime.worker import farewell
from env_server.testing.in_process import serve_in_process
from tests.unit.agent_runtime.stage import PLAYERS, make_launch

PARTS = (Part(group="g", number=0, first=0, end=1),)


def launch_with(folder: Path, clock: str) -> Launch:
    launch = make_launch(folder, f"{PLAYERS}:Sleeper", ["hourly-0"], clock=clock)
    settings = launch.worker.model_copy(update={"connect_timeout_s": 600.0})
    return launch.model_copy(update={"worker": settings})


async def test_a_world_that_is_gone_is_waited_for_no_longer_than_goodbyes_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(farewell, "AWAY_S_MAX", 0.1)
    async with (
        asyncio.timeout(60),
        ClockLeave(launch_with(tmp_path, "/town"), "127.0.0.1:1", "main", PARTS) as leaving,
    ):
        await leaving.leave()
    told = capsys.readouterr().err
    assert told.startswith("ecumene runtime: clocks may wait for run r: ") and len(told.splitlines()) == 1


async def test_clocks_are_left_only_when_the_run_has_ended_in_order(tmp_path: Path) -> None:
    async with serve_in_process() as address, connect(address) as world:
        town = world.environment("/town")
        await town.register(clock=Clock.manual())
        await town.set_timer(name_timer("r", "g.0"), at_ns=5)
        async with ClockLeave(launch_with(tmp_path, "/town"), address, "main", PARTS):
            pass
        assert [timer.name async for timer in town.timers()] == ["wakes.r:g.0"]
        async with ClockLeave(launch_with(tmp_path, "/town"), address, "main", PARTS) as leaving:
            await leaving.leave()
        assert not [timer async for timer in town.timers()]


async def test_who_lives_by_no_clock_looks_for_no_world(tmp_path: Path) -> None:
    async with ClockLeave(launch_with(tmp_path, ""), "127.0.0.1:1", "main", PARTS) as leaving:
        await leaving.leave()
