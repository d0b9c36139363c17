"""The bare limit of spaces: `python -m ecumene.bench.limits.bare_cells CASE`, entries in cells of a dict, one process.

The same moves and queries as `ecumene.bench.space_load`, on a torus, with plain Python and nothing else: no server, no
checks, no log, no events but a list of who meets whom. Cells are as wide as suits these very distances, which a space
that takes any cannot know. Prints one JSON line: microseconds of CPU each.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ecumene.bench.child import tell
from ecumene.bench.load_case import spare_collector
from ecumene.bench.space_case import NEAREST, Crowd, Point, SpaceCase

CELL_SIDE = 3.0
"""Of the plane, roughly: an entry a cell."""

Cell = tuple[int, int]


class BareCells:
    """Who is where, and who is near."""

    def __init__(self, case: SpaceCase) -> None:
        self._side = case.side
        self._is_plane = case.shape == "plane"
        self._count = int(case.side / CELL_SIDE) if self._is_plane else int(case.side)
        self._per_unit = self._count / case.side
        self._cells: dict[Cell, dict[str, Point]] = {}
        self._places: dict[str, Point] = {}

    def put(self, key: str, point: Point) -> None:
        """It is there, and nowhere else."""
        before = self._places.get(key)
        if before is not None:
            del self._cells[self._cell(before)][key]
        self._places[key] = point
        self._cells.setdefault(self._cell(point), {})[key] = point

    def within(self, point: Point, radius: float) -> list[tuple[float, str]]:
        """All at most so far away, the nearest first."""
        reach = math.ceil(radius * self._per_unit)
        found = [near for near in self._look(point, reach) if near[0] <= radius]
        found.sort()
        return found

    def nearest(self, point: Point, count: int) -> list[tuple[float, str]]:
        """The nearest ones: of a square of cells that is large enough to be sure of them."""
        reach = 1
        while True:
            found = sorted(self._look(point, reach))[:count]
            if (len(found) == count and found[-1][0] <= reach / self._per_unit) or 2 * reach + 1 >= self._count:
                return found
            reach += 1

    def _look(self, point: Point, reach: int) -> list[tuple[float, str]]:
        """Those in a square of cells, with their distances."""
        (x, y), side, cells, count = point, self._side, self._cells, self._count
        column, row = self._cell(point)
        found = []
        join: Callable[[float, float], float] = math.hypot if self._is_plane else max
        for west in range(column - reach, column + reach + 1):
            for south in range(row - reach, row + reach + 1):
                cell = cells.get((west % count, south % count))
                if cell:
                    for key, (there_x, there_y) in cell.items():
                        gap_x, gap_y = abs(there_x - x), abs(there_y - y)
                        if gap_x + gap_x > side:
                            gap_x = side - gap_x
                        if gap_y + gap_y > side:
                            gap_y = side - gap_y
                        found.append((join(gap_x, gap_y), key))
        return found

    def _cell(self, point: Point) -> Cell:
        return int(point[0] * self._per_unit), int(point[1] * self._per_unit)


class BareMoves:
    """Moves over those cells, of which some are told."""

    def __init__(self, case: SpaceCase, cells: BareCells) -> None:
        self._cells = cells
        self._distance = case.proximity
        self._border = case.side / 2
        self.told: list[tuple[str, str]] = []

    def create(self, keys: Sequence[str], points: Sequence[Point], _before: Sequence[Point]) -> None:
        """Put all of them there, or only move them."""
        for key, point in zip(keys, points, strict=True):
            self._cells.put(key, point)

    def cross(self, keys: Sequence[str], points: Sequence[Point], before: Sequence[Point]) -> None:
        """Move them, and tell who crosses the border."""
        for key, point, old in zip(keys, points, before, strict=True):
            self._border_of(key, old, point)
            self._cells.put(key, point)

    def meet(self, keys: Sequence[str], points: Sequence[Point], before: Sequence[Point]) -> None:
        """Move them, and tell who crosses the border and who comes near to whom or goes away."""
        cells, distance, told = self._cells, self._distance, self.told
        for key, point, old in zip(keys, points, before, strict=True):
            self._border_of(key, old, point)
            was = {other for _, other in cells.within(old, distance)}
            cells.put(key, point)
            now = {other for _, other in cells.within(point, distance)}
            for other in was ^ now:
                if other != key:
                    told.append((key, other))
                    told.append((other, key))

    def _border_of(self, key: str, old: Point, point: Point) -> None:
        if (old[0] < self._border) is not (point[0] < self._border):
            self.told.append((key, ""))


def measure(case: SpaceCase) -> dict[str, float]:
    """All of it, in the order of `ecumene.bench.space_load`, so that the moves are the same."""
    cells = BareCells(case)
    moves = BareMoves(case, cells)
    crowd = Crowd(case)
    movers = crowd.draw(case.moves)
    names = [crowd.keys[mover] for mover in movers]
    figures: dict[str, float] = {}
    spare_collector()

    def take(name: str, count: int, work: Callable[[], Any]) -> None:
        start_s = time.process_time()
        work()
        figures[f"{name}_us"] = 1e6 * (time.process_time() - start_s) / count

    def move(name: str, work: Callable[[Sequence[str], Sequence[Point], Sequence[Point]], None], far: bool) -> None:
        before = [crowd.points[mover] for mover in movers]
        points = (crowd.cross if far else crowd.walk)(movers)
        moves.told.clear()
        take(name, len(names), lambda: work(names, points, before))
        figures[f"{name}_told"] = len(moves.told) / len(names)

    def ask(name: str, query: Callable[[Point], Any]) -> None:
        points = [crowd.points[asker] for asker in crowd.draw(case.queries)]
        take(name, len(points), lambda: [query(point) for point in points])

    take("create", case.entries, lambda: moves.create(crowd.keys, crowd.points, ()))
    move("move_plain", moves.create, far=False)
    ask("knn", lambda point: cells.nearest(point, NEAREST))
    ask("radius", lambda point: cells.within(point, case.radius))
    take("neighbours", case.entries, lambda: [cells.within(point, case.radius) for point in crowd.points])
    take("knn_table", case.entries, lambda: [cells.nearest(point, NEAREST) for point in crowd.points])
    move("move_region", moves.cross, far=True)
    move("move", moves.meet, far=True)
    move("move_walk", moves.meet, far=False)
    return figures


if __name__ == "__main__":
    tell(measure(SpaceCase(**json.loads(sys.argv[1]))))
