"""Walkers who wake by the clock of their town, and move: a whole run, from the environment to its end.

ecumene serve --data-dir /tmp/walkers &
python examples/walkers.py

The order matters: who is to be waited for is there before the clock is, and the clock stands until all are. A world has
one such day: for another one, serve another --data-dir.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import ecumene
import pyarrow as pa
from ecumene import Clock, EventFilter, EventType, Grid, ns
from ecumene.launch import Services
from ecumene.launch.node_runs import GroupAgents, launch_run, stop_run

from agent_runtime.agents.agent import Agent
from agent_runtime.model.draws import Draw

if TYPE_CHECKING:
    from ecumene import Event, World

    from agent_runtime.turns.turn import Turn

HERE = Path(__file__).resolve().parent
TOWN, STAFF = "/town", "/town/staff"
NOTHING_DUE = "nothing is due"
GRID = Grid(10, 10, torus=True)
NAMES = [f"walker-{number}" for number in range(8)]
HOUR_NS, DAWN_NS, EVENING_NS = ns(hours=1), ns(hours=6), ns(hours=18)


class Walker(Agent):
    """Makes a step each hour, until it is evening."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        """Ask for the next wake, look, go."""
        now_ns = turn.sim_time_ns or 0
        if now_ns + HOUR_NS < EVENING_NS:  # whoever asks for more keeps the clock going past the evening
            turn.wake_after(HOUR_NS)
        column, row = (await turn.world.get(TOWN, self.id)).position
        draw = Draw(self.group.seed, self.id, turn.number, 0)
        turn.move(TOWN, GRID.wrap((column + draw.choice([-1, 0, 1]), row + draw.choice([-1, 0, 1]))))


async def play(world: World) -> None:
    """A day of the town, hosted by a node that is there already."""
    town = world.environment(TOWN)
    await town.register(space=GRID)
    (
        await town.create_many(NAMES, [0] * len(NAMES), [(number, number) for number in range(len(NAMES))])
    ).raise_failure()
    await world.environment(STAFF).register()  # before a clock can name it: all its entries take part
    await town.change(clock=Clock.event_driven(participants_path=STAFF, paused=True))
    await town.set_timer("evening", at_ns=EVENING_NS)

    group = {"name": "walkers", "agent": "walkers:Walker", "clock": TOWN, "first_wake_ns": DAWN_NS}
    await launch_run(world, {"run": "monday", "seed": 7, "groups": [group]}, {"walkers": write_agents()})

    evening = EventFilter(path_prefix=TOWN, key_glob="evening", types=(EventType.TIMER_FIRED,))
    async with world.watch(evening, from_revision=1) as watch:
        await town.clock().resume()
        async for event in watch:
            print("it is", event.sim_time_ns // HOUR_NS, "o'clock")  # all that was due before has been done
            break
    # The walkers hear of the evening as we do. Then nobody wants to be woken any more: the run has ended by itself.
    while NOTHING_DUE not in (state := await town.clock().state()).held_by:  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(0.05)
    print("the clock stands:", *state.held_by)
    for name in NAMES[:3]:
        print(name, "is at", (await town.get(name)).position)
    await stop_run(world, "monday")


def write_agents() -> GroupAgents:
    """Who they are, as nodes take it."""
    table = pa.table({"agent_id": NAMES})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return GroupAgents(len(NAMES), sink.getvalue().to_pybytes())


async def main(address: str) -> None:
    """Start a node beside a server, and play."""
    found = {"PYTHONPATH": os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH", ""))))}
    async with Services() as services, ecumene.connect(address, create=True) as world:
        await services.start("runtime", ["--server", address, "--name", "a"], environment=found)
        await play(world)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7170"))
