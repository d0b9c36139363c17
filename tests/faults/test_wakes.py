"""Agents that wake at simulated times, whose workers and server are killed: each wake has one effect."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import Clock, EventFilter, EventType, Participant, World

from agent_runtime.settings import parse_launch
from tests.faults.takeovers import Fleet, open_world
from tests.faults.waking import DONE_S, TTL_S, Town, describe_town
from tests.faults.waking_agents import DAY_NS, HOUR_NS, WAKES, minute_of
from tests.services import ServerProcess

RESIDENTS, HOURLY = 12, 60
TAKEOVER_S = TTL_S + 4


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as running:
        yield running


@pytest.fixture
async def world(server: ServerProcess) -> AsyncIterator[World]:
    async with open_world(server) as world:
        yield world


async def wait_until(look: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> None:
    """Until what is seen is as wanted."""
    async with asyncio.timeout(DONE_S):
        while not holds(await look()):  # noqa: ASYNC110 - what others do is seen by looking
            await asyncio.sleep(0.02)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=pytest.mark.long)])
async def test_whoever_hosts_an_agent_each_wake_has_one_effect(
    tmp_path: Path, server: ServerProcess, world: World, seed: int, kills: int
) -> None:
    """A worker is killed while its agents are woken, at random moments; another one takes its parts over."""
    chance = random.Random(seed)
    fleet = Fleet(server, parse_launch(describe_town(tmp_path, residents=RESIDENTS, hourly=HOURLY)))
    town = Town(world, residents=RESIDENTS, hourly=HOURLY)
    await town.prepare()
    now_ns = 0
    try:
        await fleet.begin(2)
        await fleet.host(0, *fleet.parts[::2])
        await fleet.host(1, *fleet.parts[1::2])
        for _ in range(kills):
            victim = chance.randrange(2)
            now_ns = (await town.advance(chance.choice([0.5, 3, 14]))).now_ns
            await asyncio.sleep(chance.uniform(0, 0.15))
            orphans = fleet.hosted(victim)
            await fleet.kill(victim)
            if chance.random() < 0.5:
                now_ns = (await town.advance(chance.choice([0.25, 8]))).now_ns
            await fleet.start(victim)
            await fleet.host(1 - victim, *orphans, wait_s=TAKEOVER_S)
            for part in fleet.hosted(1 - victim)[::2]:
                await fleet.drop(1 - victim, part, chance.choice([0.0, 1.0]))
                await fleet.host(victim, part)
        now_ns = (await town.advance(5)).now_ns
        await town.check_once(now_ns)
        assert fleet.lost == []
    finally:
        await fleet.end()


@pytest.mark.timeout(600)
async def test_a_server_that_is_killed_wakes_nobody_twice_and_forgets_nobody(
    tmp_path: Path, server: ServerProcess, world: World, seed: int
) -> None:
    chance = random.Random(seed)
    fleet = Fleet(server, parse_launch(describe_town(tmp_path, residents=RESIDENTS, hourly=HOURLY)))
    town = Town(world, residents=RESIDENTS, hourly=HOURLY)
    await town.prepare()
    now_ns = 0
    try:
        await fleet.begin(1)
        await fleet.host(0, *fleet.parts)
        for _ in range(3):
            now_ns = (await town.advance(chance.choice([2, 10]))).now_ns
            await asyncio.sleep(chance.uniform(0, 0.1))
            server.kill()
            server.start()
        now_ns = (await town.advance(3)).now_ns
        await town.check_once(now_ns)
    finally:
        await fleet.end()


async def test_an_agent_whose_server_and_worker_go_while_it_thinks_is_woken_at_its_own_time(
    tmp_path: Path, server: ServerProcess, world: World
) -> None:
    """The timer has fired, and no turn was committed: what is told again is the time that was asked for."""
    fleet = Fleet(server, parse_launch(describe_town(tmp_path, residents=1, hourly=1, parts=1)))
    town = Town(world, residents=1, hourly=1)
    await town.prepare()
    try:
        await fleet.begin(1)
        await fleet.host(0, *fleet.parts)
        await town.advance(7)
        await fleet.kill(0)
        now_ns = (await town.advance(30)).now_ns
        await fleet.start(0)
        await fleet.host(0, *fleet.parts, wait_s=TAKEOVER_S)
        await town.check_once(now_ns)
        assert now_ns == 37 * HOUR_NS
    finally:
        await fleet.end()


async def test_nobody_lives_through_what_a_skip_leaves_out(tmp_path: Path, server: ServerProcess, world: World) -> None:
    fleet = Fleet(server, parse_launch(describe_town(tmp_path, residents=2, hourly=5)))
    town = Town(world, residents=2, hourly=5)
    await town.prepare()
    try:
        await fleet.begin(1)
        await fleet.host(0, *fleet.parts)
        await town.wait_until((await town.advance(8)).now_ns)
        await town.clock.skip_to(100 * DAY_NS)
        later = [[100, 0, "noon", None], [100, 0, "evening", {"do": "dance"}], [100, 0, "", None]]
        await wait_until(town.read_logs, lambda logs: all(log[1:] == later for log in logs.values()))
        await town.advance(23)
        seen = town.expect_seen(100 * DAY_NS + 23 * HOUR_NS)
        await wait_until(town.read_seen, lambda found: found == seen)
        assert all(log[1:] == later for log in (await town.read_logs()).values())
    finally:
        await fleet.end()


async def test_agents_of_a_clock_that_runs_wake_in_time(tmp_path: Path, server: ServerProcess, world: World) -> None:
    """Ten hours a second: whatever is late, each wake has its own time and its own turn."""
    fleet = Fleet(server, parse_launch(describe_town(tmp_path, residents=4, hourly=20)))
    town = Town(world, residents=4, hourly=20)
    await town.prepare(Clock.realtime(rate=36_000.0, paused=True))
    try:
        await fleet.begin(1)
        await fleet.host(0, *fleet.parts)
        await town.clock.resume()
        await wait_until(town.clock.state, lambda state: state.now_ns >= 40 * HOUR_NS)
        # A clock that is paused fires nothing, so that who is behind would stay behind.
        await town.check_once((await town.clock.set_rate(1e-6)).now_ns)
    finally:
        await fleet.end()


@pytest.mark.timeout(900)
async def test_a_clock_that_waits_for_agents_passes_none_of_their_wakes_whoever_hosts_them(
    tmp_path: Path, server: ServerProcess, world: World, seed: int
) -> None:
    """Workers are killed and parts moved while simulated days pass by themselves: each wake is at its own time."""
    chance = random.Random(seed)
    fleet = Fleet(server, parse_launch(describe_town(tmp_path, residents=RESIDENTS, hourly=HOURLY)))
    town = Town(world, residents=RESIDENTS, hourly=HOURLY)
    await world.environment("/staff").register()
    await town.prepare(Clock.event_driven(participants_path="/staff", paused=True))
    end_ns = 3 * DAY_NS - 1
    try:
        async with town.clock.participate("director", ttl_s=None, hears=[]) as director:
            director.wake_at(end_ns)
            days = asyncio.create_task(pass_time(director, end_ns))
            await fleet.begin(2)
            await fleet.host(0, *fleet.parts[::2])
            await fleet.host(1, *fleet.parts[1::2])
            await town.clock.resume()
            for _ in range(2):
                victim = chance.randrange(2)
                await asyncio.sleep(chance.uniform(0.2, 1.0))
                orphans = fleet.hosted(victim)
                await fleet.kill(victim)
                await asyncio.sleep(chance.uniform(0, 0.3))
                assert not days.done()
                await fleet.start(victim)
                await fleet.host(1 - victim, *orphans, wait_s=TAKEOVER_S)
                for part in fleet.hosted(1 - victim)[::2]:
                    await fleet.drop(1 - victim, part, 1.0)
                    await fleet.host(victim, part)
            async with asyncio.timeout(300):
                await days
            await town.check_once(end_ns)
            assert (await town.clock.state()).now_ns == end_ns
            assert await late_wakes(world) == []
    finally:
        await fleet.end()


async def pass_time(director: Participant, end_ns: int) -> None:
    """Has nothing to do until the end, and keeps the clock there."""
    async for _ in director:
        if director.now_ns >= end_ns:
            return


async def late_wakes(world: World) -> list[tuple[str, int]]:
    """Hourly agents whose effects came when the clock had passed their time, with the time that it showed."""
    head, late = world.revision, []
    seen = EventFilter(path_prefix=WAKES, key_glob="h-*", types=(EventType.ENTRY_SET,))
    async with world.watch_frames(seen, from_revision=1) as watch:
        async for batch in watch:
            for event in batch:
                wake_ns = (int(event.value) - 1) * HOUR_NS + minute_of(event.key)  # type: ignore[arg-type]
                if event.sim_time_ns != wake_ns:
                    late.append((event.key, event.sim_time_ns or 0))
            if batch.revisions[-1] >= head or len(late) > 5:
                return late
            if (int(batch.values[-1]) >= 71) and batch.sim_times_ns[-1] == 71 * HOUR_NS + 2 * 60 * 10**9:  # type: ignore[arg-type]
                return late
    raise AssertionError("the watch has ended")
