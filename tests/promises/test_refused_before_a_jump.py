"""No clock goes on over ops that were refused for now, and that their client sends again."""

from __future__ import annotations

import asyncio

from ecumene.client import Clock, EventFilter, EventType, Grid, Proximity, World, connect

from env_server.model.limits import Limits
from env_server.testing.in_process import serve_in_process

CROWD, MOVERS = 12, 8
TIMES = 6


async def make_town(world: World) -> None:
    """A square whose crowd is looked at by whoever comes, and a clock with a bell."""
    for path in ("/town", "/staff"):
        await world.environment(path).register()
    square = world.environment("/town/square")
    await square.register(space=Grid(8, 8), proximities=[Proximity("met", 1.0)])
    names = [f"here-{number}" for number in range(CROWD)] + [f"m{number}" for number in range(MOVERS)]
    await square.set_many(names, [0] * len(names), [(1, 1)] * CROWD + [(6, 6)] * MOVERS)
    town = world.environment("/town")
    await town.change(clock=Clock.event_driven(participants_path="/staff"))
    await town.set_timer("bell", at_ns=10, every_ns=10)


async def test_what_was_refused_for_now_takes_effect_before_the_clock_goes_on() -> None:
    """Awaited or not: here and there and back, at each bell, in a frame of which the most are refused at first."""
    limits = Limits(map_bytes=1 << 28, log_bytes_max=1 << 27, group_looks_max=3 * CROWD)
    async with serve_in_process(limits=limits) as address, connect(address) as world:
        await make_town(world)
        square, issued = world.environment("/town/square"), []
        hears = [EventFilter(path_prefix="/town", types=(EventType.TIMER_FIRED,))]
        async with asyncio.timeout(30), world.environment("/town").clock().participate("ann", hears=hears) as ann:
            async for batch in ann:
                for event in batch:
                    if event.type is EventType.TIMER_FIRED:
                        cell = (1, 1) if event.sim_time_ns // 10 % 2 else (6, 6)  # type: ignore[operator]
                        issued += [asyncio.ensure_future(square.move(f"m{number}", cell)) for number in range(MOVERS)]
                await asyncio.sleep(0)  # they are issued
                if ann.now_ns >= 10 * TIMES:
                    break
        await asyncio.gather(*issued)
        moved = await read_moves(world)
    assert len(moved) == MOVERS * TIMES
    assert moved == sorted(moved) and {at_ns: moved.count(at_ns) for at_ns in moved} == {
        10 * number: MOVERS for number in range(1, TIMES + 1)
    }


async def read_moves(world: World) -> list[int]:
    """When each move took place."""
    moved: list[int] = []
    await world.environment("/staff").set("end", 1)
    async with world.watch_frames(EventFilter(), from_revision=1) as watch:
        async for batch in watch:
            moves = (event for event in batch if event.type is EventType.ENTRY_MOVED and event.key.startswith("m"))
            moved += [event.sim_time_ns for event in moves if event.sim_time_ns]
            if batch.through_revision >= world.revision:
                return moved
    raise AssertionError("the watch has ended")
