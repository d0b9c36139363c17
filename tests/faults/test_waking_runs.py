"""Whole runs of agents that wake at times: the digest does not depend on how many workers host them, or on a kill."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from ecumene.client import Clock
from ecumene.client.records import RunDigest, digest_state, digest_turns
from ecumene.launch.waking import wait_woken

from tests.faults.takeovers import Runtime, free_parts, open_world
from tests.faults.waking import DONE_S, Town, describe_town
from tests.faults.waking_agents import HOUR_NS
from tests.services import ServerProcess

RESIDENTS, HOURLY = 8, 40
TTL_S = 300.0
"""A worker that stands still longer on a busy machine would end its runtime; nobody waits for the end of a lease."""
STEPS_H = (7.5, 3, 20, 30)
"""Hours by which the clock goes on: at some of them several wakes of an agent are passed at once."""


async def play(folder: Path, *, workers: int, is_killed: bool = False) -> RunDigest:
    """One run from its beginning to its end; the runtime is killed after the second step, if it is, and resumed."""
    launch = describe_town(folder, residents=RESIDENTS, hourly=HOURLY, parts=workers, ttl_s=TTL_S) | {
        "workers": workers,
        "recording": str(folder / "rec"),
    }
    with ServerProcess(folder / "data") as server:
        runtime = Runtime(folder, launch, server.address)
        async with open_world(server) as world:
            town = Town(world, residents=RESIDENTS, hourly=HOURLY)
            await town.prepare()
            assert "error" not in await runtime.start()
            for step, hours in enumerate(STEPS_H):
                now_ns = (await town.advance(hours)).now_ns
                if is_killed and step == 2:
                    await asyncio.sleep(0.1)
                    await runtime.kill()
                    await free_parts(world)
                    assert "error" not in await runtime.start(resume=True, workers=workers)
                await wait_woken(world, "r", now_ns, agents=RESIDENTS + HOURLY, timeout_s=DONE_S)
                found = await town.read_logs(), await town.read_seen()
                assert found == (town.expect_log(now_ns), town.expect_seen(now_ns))
            await town.check_once(now_ns)
            assert await runtime.stop() == 0
            return RunDigest(digest_turns(folder / "rec"), await digest_state(world), "")


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_the_digest_is_that_of_one_worker(tmp_path: Path) -> None:
    for name in ("alone", "four", "killed"):
        (tmp_path / name).mkdir()
    alone = await play(tmp_path / "alone", workers=1)
    assert await play(tmp_path / "four", workers=4) == alone
    assert await play(tmp_path / "killed", workers=2, is_killed=True) == alone


async def live(folder: Path, *, workers: int, is_killed: bool = False) -> RunDigest:
    """Two days on a clock that waits for everybody: residents think long, the others hardly at all."""
    launch = describe_town(folder, residents=RESIDENTS, hourly=HOURLY, parts=workers, ttl_s=TTL_S)
    launch |= {"workers": workers, "recording": str(folder / "rec")}
    launch["groups"][0]["parameters"] = {"thinking_s": 0.3}
    with ServerProcess(folder / "data") as server:
        runtime = Runtime(folder, launch, server.address)
        async with open_world(server) as world:
            town = Town(world, residents=RESIDENTS, hourly=HOURLY)
            await world.environment("/staff").register()
            await town.prepare(Clock.event_driven(participants_path="/staff", paused=True))
            async with town.clock.participate("director", ttl_s=None, hears=[]) as director, asyncio.timeout(240):
                assert "error" not in await runtime.start()
                await town.clock.resume()
                for hour in (20, 47):
                    director.wake_at(hour * HOUR_NS)
                    async for _ in director:
                        if director.now_ns >= hour * HOUR_NS:
                            break
                    if is_killed and hour == 20:
                        # At any moment of what is due then; until somebody else has the parts, the clock stands.
                        director.wake_at(47 * HOUR_NS)
                        passing = asyncio.create_task(anext(aiter(director)), name="time passes")
                        await asyncio.sleep(0.2)
                        await runtime.kill()
                        await free_parts(world)
                        assert "error" not in await runtime.start(resume=True, workers=workers)
                        await passing
                await town.check_once(47 * HOUR_NS)
                assert director.now_ns == 47 * HOUR_NS
                assert await runtime.stop() == 0
            return RunDigest(digest_turns(folder / "rec"), await digest_state(world), "")


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_by_a_clock_that_waits_for_slow_agents_and_quick_ones_the_digest_is_that_of_one_worker(
    tmp_path: Path,
) -> None:
    for name in ("alone", "four", "killed"):
        (tmp_path / name).mkdir()
    alone = await live(tmp_path / "alone", workers=1)
    assert await live(tmp_path / "four", workers=4) == alone
    assert await live(tmp_path / "killed", workers=4, is_killed=True) == alone
