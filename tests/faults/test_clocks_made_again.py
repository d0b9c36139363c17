"""The clock by which hosted agents live is deleted and made again: the next one wakes whom this one would have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ecumene.client import Clock, World
from ecumene.launch.clock_places import release_clock

from agent_runtime.settings import parse_launch
from tests.faults.takeovers import Fleet, open_world
from tests.faults.waking import TTL_S, Town, describe_town
from tests.faults.waking_agents import HOUR_NS
from tests.services import ServerProcess

HOURS, STAFF = "/hours", "/staff"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as running:
        yield running


@pytest.fixture
async def world(server: ServerProcess) -> AsyncIterator[World]:
    async with open_world(server) as world:
        yield world


async def pass_time(world: World, to_ns: int) -> None:
    """Until the clock, which waits for the agents and for us, has come there; it stands there while this is awaited."""
    async with world.environment(HOURS).clock().participate("director", hears=[]) as director:
        director.wake_at(to_ns)
        await world.environment(HOURS).clock().resume()
        async for _ in director:
            if director.now_ns >= to_ns:
                await world.environment(HOURS).clock().pause()
                return


async def make_clock(world: World, start_ns: int) -> None:
    await world.environment(HOURS).register(
        clock=Clock.event_driven(start_ns=start_ns, participants_path=STAFF, paused=True)
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_staff_gone", [False, True])
async def test_agents_live_on_by_a_clock_that_is_made_again(
    tmp_path: Path, server: ServerProcess, world: World, is_staff_gone: bool
) -> None:
    description = describe_town(tmp_path, residents=2, hourly=6, parts=1)
    for group in description["groups"]:
        group["clock"] = HOURS
    fleet, town = Fleet(server, parse_launch(description)), Town(world, residents=2, hourly=6)
    await town.prepare()
    await world.environment(STAFF).register()
    await make_clock(world, 0)
    try:
        await fleet.begin(1)
        await fleet.host(0, *fleet.parts)
        async with asyncio.timeout(120):
            await pass_time(world, 10 * HOUR_NS)
            await town.wait_until(10 * HOUR_NS)
            for place in (HOURS, STAFF) if is_staff_gone else (HOURS,):
                await world.environment(place).unregister()
            if is_staff_gone:
                await world.environment(STAFF).register()
            await make_clock(world, 10 * HOUR_NS)
            while len([entry async for entry in world.environment(STAFF).entries()]) < len(fleet.parts):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await pass_time(world, 21 * HOUR_NS)
        await town.check_once(21 * HOUR_NS)
        assert fleet.lost == []
    finally:
        await fleet.end()


@pytest.mark.timeout(300)
async def test_a_clock_that_was_released_goes_on_and_a_run_that_is_gone_on_with_takes_its_place_again(
    tmp_path: Path, server: ServerProcess, world: World
) -> None:
    description = describe_town(tmp_path, residents=2, hourly=6, parts=1)
    for group in description["groups"]:
        group["clock"] = HOURS
    fleet, town = Fleet(server, parse_launch(description)), Town(world, residents=2, hourly=6)
    await town.prepare()
    await world.environment(STAFF).register()
    await make_clock(world, 0)
    try:
        await fleet.begin(1)
        await fleet.host(0, *fleet.parts)
        async with asyncio.timeout(120):
            await pass_time(world, 10 * HOUR_NS)
            assert await release_clock(world, HOURS, "r") == [], "its parts are hosted"
            await fleet.kill(0)
            while not (released := await release_clock(world, HOURS, "r")):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            while len(released) < len(fleet.parts):
                released += await release_clock(world, HOURS, "r")
            await pass_time(world, 15 * HOUR_NS)
            await fleet.start(0)
            await fleet.host(0, *fleet.parts, wait_s=TTL_S)
            assert len([entry async for entry in world.environment(STAFF).entries()]) == len(fleet.parts)
            await pass_time(world, 21 * HOUR_NS)
        await town.check_once(21 * HOUR_NS)
    finally:
        await fleet.end()
