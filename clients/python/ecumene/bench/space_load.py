"""Moves and queries of one client: `python -m ecumene.bench.space_load CASE`, where CASE is a JSON document.

Fills a space, moves entries in blocks and asks who is near, and prints one JSON line: what each cost the server and the
client in CPU, in microseconds. Events of the moves are counted by their revisions and by a watch.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Awaitable, Sequence
from typing import Any

from ecumene.bench.child import run_child, tell
from ecumene.bench.load_case import ENVIRONMENT, LoadResult, Meter, spare_collector
from ecumene.bench.processes import BenchError
from ecumene.bench.space_case import NEAREST, PROXIMITY, REGION, Crowd, Point, SpaceCase
from ecumene.client.bulk import BulkResult
from ecumene.client.environment import Environment
from ecumene.client.model import EventFilter, EventType
from ecumene.client.spaces import Box, Grid, Plane, Proximity, Region
from ecumene.client.world import World, connect

ASKED_AT_ONCE = 500
TURNS = 5
ROW_BYTES = 96
"""Of a row of a table of neighbours, at most; a table must fit one message."""
TABLE_BYTES_MAX = 3_500_000
TOLD = (EventType.REGION_ENTERED, EventType.REGION_LEFT, EventType.PROXIMITY_ENTERED, EventType.PROXIMITY_LEFT)

Figures = dict[str, float]


class SpaceLoad:
    """One client with a space full of entries."""

    def __init__(self, case: SpaceCase, world: World) -> None:
        self._case = case
        self._world = world
        self._place: Environment = world.environment(ENVIRONMENT)
        self._crowd = Crowd(case)
        self._movers = self._crowd.draw(case.moves)
        self._names = [self._crowd.keys[mover] for mover in self._movers]
        self.figures: Figures = {}

    async def measure(self) -> Figures:
        """All of it, one after the other."""
        case, crowd, place = self._case, self._crowd, self._place
        side = case.side
        shape = (
            Plane(0.0, 0.0, side, side, torus=True) if case.shape == "plane" else Grid(int(side), int(side), torus=True)
        )
        await place.register(space=shape)
        spare_collector()
        values = [index * 0.5 for index in range(case.entries)]
        await self._change("create", place.set_many(crowd.keys, values, crowd.points), case.entries)
        await self._set_and_move(values, crowd.walk(self._movers))
        await self._ask("knn", nearest=NEAREST)
        await self._ask("radius", radius=case.radius)
        await self._tabulate("neighbours", radius=case.radius)
        await self._tabulate("knn_table", nearest=NEAREST)
        east = side / 2 if case.shape == "plane" else side / 2 - 1
        await place.change(set_regions=[Region(REGION, Box((0.0, 0.0), (east, side - (case.shape == "grid"))))])
        await self._move("move_region", crowd.cross(self._movers))
        await place.change(set_proximities=[Proximity(PROXIMITY, case.proximity)])
        await self._move("move", crowd.cross(self._movers))
        await self._move("move_walk", crowd.walk(self._movers))
        return self.figures

    async def _move(self, name: str, points: Sequence[Point]) -> None:
        """All movers at once; what was told of it is counted afterwards."""
        before = (await self._place.set(self._names[0], 1.0)).revision
        end = await self._change(name, self._place.move_many(self._names, points), len(self._names))
        await self._count(name, before, end)

    async def _set_and_move(self, values: Sequence[float], points: Sequence[Point]) -> None:
        """Sets and moves in turns: what the server writes into its tables now and then is borne by both."""
        names, place = self._names, self._place
        before = (await place.set(names[0], 1.0)).revision
        size = -(-len(names) // TURNS)
        costs: dict[str, list[LoadResult]] = {"set": [], "move_plain": []}
        end = before
        for start in range(0, len(names), size):
            part = slice(start, start + size)
            for name, work in (
                ("set", place.set_many(names[part], values[part])),
                ("move_plain", place.move_many(names[part], points[part])),
            ):
                meter = Meter(self._case.server_pid)
                result = (await work).raise_failure()
                costs[name].append(meter.stop(len(names[part]), result.ok_count))
                end = result.revision
        for name, parts in costs.items():
            self._note(name, _sum(parts))
        await self._count("move_plain", before, end)

    async def _count(self, name: str, before: int, end: int) -> None:
        """What was told of moves, from the revision behind `before` on."""
        told = 0
        watched = EventFilter(path_prefix=ENVIRONMENT, types=(*TOLD, EventType.ENTRY_MOVED))
        async with self._world.watch_frames(watched, from_revision=before + 1) as watch:
            async for batch in watch:
                told += sum(type_ in TOLD for type_ in batch.types)
                if batch.through_revision >= end:
                    break
        self.figures[f"{name}_told"] = told / len(self._names)

    async def _change(self, name: str, work: Awaitable[BulkResult], count: int) -> int:
        """Returns the world's revision behind it."""
        meter = Meter(self._case.server_pid)
        result = (await work).raise_failure()
        self._note(name, meter.stop(count, result.ok_count))
        return result.revision

    async def _ask(self, name: str, **how: Any) -> None:
        """Questions of many at a time, which travel in frames."""
        points = [self._crowd.points[asker] for asker in self._crowd.draw(self._case.queries)]
        answered = 0
        meter = Meter(self._case.server_pid)
        for start in range(0, len(points), ASKED_AT_ONCE):
            asked = [self._place.near(point, **how) for point in points[start : start + ASKED_AT_ONCE]]
            answered += sum(map(bool, await asyncio.gather(*asked)))
        self._note(name, meter.stop(len(points), answered))

    async def _tabulate(self, name: str, **how: Any) -> None:
        """Everybody's neighbours, in as many tables as they need."""
        keys = self._crowd.keys
        rows = TABLE_BYTES_MAX // ROW_BYTES
        meter = Meter(self._case.server_pid)
        tables = [
            await self._place.neighbours(**how, keys=keys[start : start + rows]) for start in range(0, len(keys), rows)
        ]
        self._note(name, meter.stop(len(keys), sum(map(len, tables))))
        self.figures[f"{name}_each"] = sum(len(table.rows) for table in tables) / len(keys)
        self.figures[f"{name}_tables"] = len(tables)

    def _note(self, name: str, result: LoadResult) -> None:
        if result.done != result.ops:
            raise BenchError(f"{name}: of {result.ops:,} {result.done:,} were done")
        self.figures[f"{name}_us"] = 1e6 * result.server_cpu_s / result.ops
        self.figures[f"{name}_client_us"] = 1e6 * result.client_cpu_s / result.ops
        self.figures[f"{name}_wall_us"] = 1e6 * result.wall_s / result.ops


def _sum(parts: Sequence[LoadResult]) -> LoadResult:
    return LoadResult(
        sum(part.ops for part in parts),
        sum(part.done for part in parts),
        math.fsum(part.wall_s for part in parts),
        math.fsum(part.client_cpu_s for part in parts),
        math.fsum(part.server_cpu_s for part in parts),
    )


async def main(document: dict[str, Any]) -> None:
    """Measure a case and tell the parent."""
    case = SpaceCase(**document)
    async with connect(case.address) as world:
        tell(await SpaceLoad(case, world).measure())


if __name__ == "__main__":
    run_child(main(json.loads(sys.argv[1])))
