"""An index of positions in a rectangle that follows them: crowded parts are divided finer, deserted ones joined again.

A cell is divided into four by four once it has more than `LEAF_SPOTS_MAX` different positions. Which cell a position
belongs to is decided by whole numbers, so borders are the same for whoever asks; the rectangles that cells cover are
told a little too large rather than too small.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import pairwise
from math import inf
from typing import Final, Protocol, final

from env_server.model.errors import LimitExceeded
from env_server.model.ports import Near

Spot = tuple[float, ...]
"""A position, perhaps with more about it behind its two coordinates."""
Crowd = str | list[str]
"""Who is at a spot: one key, or several, sorted."""
Leaf = dict[Spot, Crowd]

LEAF_SPOTS_MAX: Final = 24
JOINED_SPOTS_MAX: Final = LEAF_SPOTS_MAX // 2
"""A divided cell with no more than these is joined: so far below that one that comes and goes changes nothing."""


class Sight(Protocol):
    """How far away the parts of a space are from where a query stands."""

    def gap_x(self, low: float, high: float) -> float:
        """How far away the nearest x of an interval is; rather too little than too much."""

    def gap_y(self, low: float, high: float) -> float:
        """As `gap_x`."""

    def join(self, gap_x: float, gap_y: float) -> float:
        """How far away a rectangle is whose sides have these gaps; rather too little than too much."""


class Lens(Sight, Protocol):
    """The same for spots."""

    def sift(self, leaf: Leaf, bound: float) -> list[tuple[float, Crowd]]:
        """Those at most `bound` away, with how far."""


@final
class _Cell:
    """A divided one. `shift`: bits of a coordinate that tell places within one of its sixteen parts."""

    __slots__ = ("count", "parts", "shift", "x", "y")

    def __init__(self, x: int, y: int, shift: int) -> None:
        self.x = x
        self.y = y
        self.shift = shift
        self.count = 0
        self.parts: list[_Cell | Leaf | None] = [None] * 16


class SpotTree:
    """Who is where. `looked` is what the last query looked at: cells, spots and keys together."""

    def __init__(self, low: Spot, *, per_unit: float, bits: int, margins: tuple[float, float], looks_max: int) -> None:
        """Covers 2**`bits` units from `low` on each side, `per_unit` of them to 1.

        A cell's interval is told with `margins` added below and above.
        """
        self._low_x, self._low_y = low[0], low[1]
        self._per_unit = per_unit
        self._below, self._above = margins
        self._root = _Cell(0, 0, max(0, bits + bits % 2 - 2))
        self.looks_max = looks_max
        self.looked = 0

    def put(self, key: str, spot: Spot) -> None:
        """One more at a spot."""
        x, y = self._units(spot)
        cell = self._root
        path = []
        while True:
            path.append(cell)
            at = x >> cell.shift & 3 | (y >> cell.shift & 3) << 2
            part = cell.parts[at]
            if type(part) is _Cell:
                cell = part
                continue
            break
        if part is None:
            cell.parts[at] = {spot: key}
        else:
            crowd = part.get(spot)
            if crowd is None:
                part[spot] = key
                if len(part) > LEAF_SPOTS_MAX and cell.shift:
                    cell.parts[at] = self._divide(part, x, y, cell.shift)
            elif isinstance(crowd, list):
                insort(crowd, key)
                return
            else:
                part[spot] = [crowd, key] if crowd < key else [key, crowd]
                return
        for cell in path:
            cell.count += 1

    def drop(self, key: str, spot: Spot) -> None:
        """One less at a spot; it must be there."""
        x, y = self._units(spot)
        path = []
        part: _Cell | Leaf | None = self._root
        while type(part) is _Cell:
            cell = part
            at = x >> cell.shift & 3 | (y >> cell.shift & 3) << 2
            path.append((cell, at))
            part = cell.parts[at]
        assert part is not None
        crowd = part[spot]
        if isinstance(crowd, list):
            del crowd[bisect_left(crowd, key)]
            if len(crowd) == 1:
                part[spot] = crowd[0]
            return
        del part[spot]
        if not part:
            cell.parts[at] = None
        for cell, _at in path:
            cell.count -= 1
        self._join(path)

    def crowd(self, spot: Spot) -> Crowd:
        """Who is at a spot; () as an empty list."""
        leaf = self._leaf(spot)
        return leaf.get(spot, []) if leaf else []

    def leaves(self, sight: Sight, radius: float) -> list[Leaf]:
        """The leaves that may have something at most `radius` away, each once.

        Raises:
            LimitExceeded: they have more than may be looked at.
        """
        self.looked = 0
        leaves: list[Leaf] = []
        cells = [self._root]
        while cells:
            for _gap, part in self._parts(cells.pop(), sight, radius):
                if type(part) is _Cell:
                    cells.append(part)
                else:
                    leaves.append(part)
                    self._look(len(part))
        return leaves

    def within(self, lens: Lens, radius: float) -> list[Near]:
        """All at most `radius` away, sorted. Raises as `leaves`."""
        near: list[Near] = []
        for leaf in self.leaves(lens, radius):
            near += self._each(lens.sift(leaf, radius), None)
        near.sort()
        return near

    def nearest(self, lens: Lens, spot: Spot, count: int) -> list[Near]:
        """The `count` nearest, sorted. Raises as `leaves`."""
        self.looked = 0
        best: list[Near] = []
        bound = inf
        # Whoever is in the same leaf is near, and bounds the rest before the first of it is looked at.
        home = self._leaf(spot)
        if home:
            best, bound = self._better(best, bound, home, lens, count)
        turn = 0
        heap: list[tuple[float, int, _Cell | Leaf]] = [(0.0, 0, self._root)]
        while heap:
            gap, _turn, part = heappop(heap)
            if gap > bound:
                break
            if type(part) is _Cell:
                for farther, inner in self._parts(part, lens, bound):
                    turn += 1
                    heappush(heap, (farther, turn, inner))
            elif part is not home:
                best, bound = self._better(best, bound, part, lens, count)
        best.sort()
        return best

    def _better(self, best: list[Near], bound: float, leaf: Leaf, lens: Lens, count: int) -> tuple[list[Near], float]:
        """The best of `best` and a leaf, and how far away the last of them is when there are enough."""
        self._look(len(leaf))
        found = lens.sift(leaf, bound)
        if found:
            best += self._each(found, count)
            if len(best) >= count:
                best.sort()
                del best[count:]
                bound = best[-1][0]
        return best, bound

    def _each(self, found: Iterable[tuple[float, Crowd]], count: int | None) -> Iterator[Near]:
        """Key by key; of a crowd only the first `count`."""
        for distance, crowd in found:
            if isinstance(crowd, str):
                yield distance, crowd
            else:
                some = crowd[:count]
                self._look(len(some))
                for key in some:
                    yield distance, key

    def _parts(self, cell: _Cell, sight: Sight, bound: float) -> list[tuple[float, "_Cell | Leaf"]]:
        """The parts of a cell that may have something within a bound, with how far away they are at least."""
        self._look(1)
        shift = cell.shift
        side = 1 << shift
        per_unit = self._per_unit
        size = side / per_unit
        parts = cell.parts
        columns = []
        for column in range(4):
            low = self._low_x + (cell.x + column * side) / per_unit
            gap = sight.gap_x(low - self._below, low + size + self._above)
            if gap <= bound:
                columns.append((column, gap))
        near = []
        for row in range(4):
            low = self._low_y + (cell.y + row * side) / per_unit
            gap_y = sight.gap_y(low - self._below, low + size + self._above)
            if gap_y <= bound:
                for column, gap_x in columns:
                    part = parts[row << 2 | column]
                    if part is not None:
                        gap = sight.join(gap_x, gap_y)
                        if gap <= bound:
                            near.append((gap, part))
        return near

    def _look(self, count: int) -> None:
        self.looked += count
        if self.looked > self.looks_max:
            raise LimitExceeded("space_looks_max", self.looks_max, self.looked)

    def _units(self, spot: Spot) -> tuple[int, int]:
        return int((spot[0] - self._low_x) * self._per_unit), int((spot[1] - self._low_y) * self._per_unit)

    def _leaf(self, spot: Spot) -> Leaf | None:
        x, y = self._units(spot)
        part: _Cell | Leaf | None = self._root
        while type(part) is _Cell:
            part = part.parts[x >> part.shift & 3 | (y >> part.shift & 3) << 2]
        return part

    def _divide(self, leaf: Leaf, x: int, y: int, shift: int) -> _Cell:
        """A leaf around (x, y), with `shift` bits, as a cell."""
        mask = -1 << shift
        cell = _Cell(x & mask, y & mask, shift - 2)
        cell.count = len(leaf)
        parts: dict[int, Leaf] = {}
        for spot, crowd in leaf.items():
            x, y = self._units(spot)
            parts.setdefault(x >> cell.shift & 3 | (y >> cell.shift & 3) << 2, {})[spot] = crowd
        for at, part in parts.items():
            if len(part) > LEAF_SPOTS_MAX and cell.shift:
                x, y = self._units(next(iter(part)))
                cell.parts[at] = self._divide(part, x, y, cell.shift)
            else:
                cell.parts[at] = part
        return cell

    def _join(self, path: list[tuple[_Cell, int]]) -> None:
        """Makes a leaf of the first cell on a way from the root that has become empty enough; the root stays."""
        for (outer, at), (cell, _at) in pairwise(path):
            if cell.count <= JOINED_SPOTS_MAX:
                outer.parts[at] = dict(_spots(cell)) or None
                return


def _spots(part: _Cell | Leaf) -> Iterator[tuple[Spot, Crowd]]:
    if type(part) is _Cell:
        for inner in part.parts:
            if inner is not None:
                yield from _spots(inner)
    else:
        yield from part.items()
