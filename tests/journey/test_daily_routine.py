"""A town with a day: who lives there wakes by the town's clock, which a conductor moves from one waking to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ecumene.client import Clock, Grid, World, connect, ns

from tests.faults.takeovers import Runtime
from tests.journey.conftest import RunningServer
from tests.unit.agent_runtime.stage import write_agents

HERE = "tests.journey.daily_routine"
CALENDAR = {"start": "2026-03-28T00:00", "zone": "Europe/Berlin"}
"""The night to Sunday the 29th is an hour short there."""


def describe(folder: Path) -> dict[str, Any]:
    def group(name: str, agent: str, *ids: str, **more: Any) -> dict[str, Any]:
        agents = str(write_agents(folder / f"{name}.arrow", ids))
        return {"name": name, "agent": agent, "agents": agents, "clock": "/town", **more}

    ann = {
        "calendar": CALENDAR,
        "wake_daily": ["08:00"],
        "answer": {"doing": {"type": "string"}},
        "answer_to": {"path": "/town/doings"},
    }
    return {
        "run": "town",
        "workers": 1,
        "models": {"m": {"provider": "scripted", "answers": f"{HERE}:answer"}},
        "groups": [
            group("lamps", f"{HERE}:Lamps", "lamp-1", "lamp-2", "lamp-3", first_wake_ns=ns(hours=6)),
            group("bakers", f"{HERE}:Baker", "bob", wake=[{"path": "/town", "key": "bell"}]),
            group("residents", "prompted-agent", "ann", model="m", parameters=ann, first_wake_ns=ns(hours=8)),
        ],
    }


async def until(look: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    """Until what is seen is what is wanted."""
    seen = None
    try:
        async with asyncio.timeout(30):
            while (seen := await look()) != wanted:  # noqa: ASYNC110 - what others do is seen by looking
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{seen} in place of {wanted}") from None


async def read_town(world: World) -> tuple[Any, Any, Any]:
    """How many lamps are lit, what ann does, and how many lines the story has."""
    lamps = [entry.value async for entry in world.environment("/town/lamps").entries()]
    story = await world.environment("/town").read_stream("story")
    return sum(lamps), await world.environment("/town/doings").value("ann"), len(story.items)


async def test_a_town_lives_by_its_clock(server: RunningServer, tmp_path: Path) -> None:
    runtime = Runtime(tmp_path, describe(tmp_path), server.address)
    async with connect(server.address) as world:
        town = world.environment("/town")
        await town.register(clock=Clock.manual())
        await world.environment("/town/lamps").register(space=Grid(9, 2))
        await world.environment("/town/doings").register()
        await town.append("story", "once upon a time")
        assert "error" not in await runtime.start()
        try:
            await live(world)
        finally:
            code = await runtime.stop()
        assert code == 0


async def live(world: World) -> None:
    """Three days, from one waking to the next."""
    town = world.environment("/town")
    await town.set("bell", 1)
    saturday, sunday = (
        "It is Saturday 2026-03-28 08:00 (Europe/Berlin).",
        "It is Sunday 2026-03-29 08:00 (Europe/Berlin).",
    )
    monday = "It is Monday 2026-03-30 08:00 (Europe/Berlin)."
    days = [
        (ns(hours=6), (0, None, 1)),
        (ns(hours=8), (0, saturday, 1)),
        (ns(hours=19), (3, saturday, 1)),
        (ns(days=1, hours=4), (3, saturday, 2)),
        (ns(days=1, hours=6), (0, saturday, 2)),
        # Clocks were put forward: eight is seven hours after midnight, as bob's seven is, who lives by no calendar.
        (ns(days=1, hours=7), (0, sunday, 3)),
        (ns(days=1, hours=19), (3, sunday, 3)),
        (ns(days=2, hours=6), (0, sunday, 3)),
        (ns(days=2, hours=7), (0, monday, 3)),
        (ns(days=2, hours=9), (0, monday, 4)),
    ]
    clock = town.clock()
    for at_ns, seen in days:
        # Everybody has said when to be woken: the clock goes to the first of these times, and stands.
        await until(lambda: find_next(clock), at_ns)
        assert (await clock.step()).now_ns == at_ns
        await until(lambda: read_town(world), seen)
    lamps = await world.environment("/town/lamps").near((1, 0), radius=1)
    assert [lamp.key for lamp in lamps] == ["lamp-1", "lamp-2"]
    story = await town.read_stream("story")
    assert [item.value for item in story.items[1:]] == [
        ["bob", "bake", None],
        ["bob", "sell", {"loaves": 40}],
        ["bob", "bake", None],
    ]


async def find_next(clock: Any) -> int | None:
    """When the first timer of the town is due."""
    due: int | None = (await clock.state()).next_due_ns
    return due
