"""Waiting for agents that wake by a clock, by what the world keeps of their wakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ecumene.client import World, connect
from ecumene.launch.waking import wait_woken

from tests.services import ServerProcess

PART = "/runtime/runs/r/wakes/g.0"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    with ServerProcess(tmp_path / "data") as server:
        async with connect(server.address) as world:
            path = ""
            for name in PART[1:].split("/"):
                path += f"/{name}"
                await world.environment(path).register()
            yield world


async def test_it_waits_for_all_who_are_late_and_for_those_of_whom_nothing_is_known(world: World) -> None:
    part = world.environment(PART)
    await part.set("ann", {"wakes": [[200], [90, "tea"]], "woke_ns": 50})
    await part.set("bob", {"wakes": [], "woke_ns": 70})
    with pytest.raises(TimeoutError, match="2 of 3 agents have been woken, and 1 are late: ann"):
        await wait_woken(world, "r", 100, agents=3, timeout_s=0.2)
    waiting = asyncio.create_task(wait_woken(world, "r", 100, agents=3, timeout_s=20), name="wait")
    await part.set("ann", {"wakes": [[95, "bed"], [200]], "woke_ns": 90})
    await part.set("cat", {"wakes": [[101]], "woke_ns": 100})
    await part.set("dog", "not what a runtime writes")
    await asyncio.sleep(0)
    assert not waiting.done()
    await part.set("ann", {"wakes": [[200]], "woke_ns": 95})
    await waiting
    await wait_woken(world, "r", 100, agents=4)


async def test_of_a_run_that_nobody_wakes_there_is_nobody_to_wait_for(world: World) -> None:
    await wait_woken(world, "other", 100, agents=0, timeout_s=20)
