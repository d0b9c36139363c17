"""An index of positions in a rectangle that follows them: crowded parts are divided finer, deserted ones joined again.

A cell is divided into four once it has more than `LEAF_SPOTS_MAX` different positions. Which cell a position
belongs to is decided by whole numbers, so borders are the same for whoever asks; the rectangles that cells cover are
told a little too large rather than too small.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
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
Range = tuple[float, float]
"""From one coordinate to another, both included."""
Window = tuple[Range, Range]
"""A range of x and one of y."""

LEAF_SPOTS_MAX: Final = 40
JOINED_SPOTS_MAX: Final = LEAF_SPOTS_MAX // 2
"""A divided cell with no more than these is joined: so far below that one that comes and goes changes nothing."""
_FEW_SPOTS: Final = 400
"""So many are looked at in any order; more are looked at from the nearest part on."""


class Lens(Protocol):
    """How a query sees distances from where it stands."""

    def sift(self, leaf: Leaf, bound: float) -> list[tuple[float, Crowd]]:
        """Those at most `bound` away, with how far."""

    def windows(self, radius: float) -> list[Window]:
        """Rectangles of the space that hold all that is at most `radius` away; they may overlap."""

    def gap_x(self, low: float, high: float) -> float:
        """How far away the nearest x of a range is; rather too little than too much."""

    def gap_y(self, low: float, high: float) -> float:
        """As `gap_x`."""

    def join(self, gap_x: float, gap_y: float) -> float:
        """How far away a rectangle is whose sides have these gaps; rather too little than too much."""


@final
class _Cell:
    """A divided one, of four parts: low x and low y, high x and low y, low x and high y, high x and high y.

    `shift`: bits of a coordinate that tell places within a part. The high parts begin at (`middle_x`, `middle_y`), in
    units. The ranges are what the parts cover, with margins.
    """

    __slots__ = ("count", "high_x", "high_y", "low_x", "low_y", "middle_x", "middle_y", "parts", "shift")

    def __init__(self, shift: int, x: int, y: int, xs: tuple[Range, Range], ys: tuple[Range, Range]) -> None:
        self.shift = shift
        self.middle_x = x + (1 << shift)
        self.middle_y = y + (1 << shift)
        self.low_x, self.high_x = xs
        self.low_y, self.high_y = ys
        self.count = 0
        self.parts: list[_Cell | Leaf | None] = [None] * 4


class SpotTree:
    """Who is where. `looked` is what the last query looked at: cells, spots and keys together."""

    def __init__(self, low: Spot, *, per_unit: float, bits: int, margins: tuple[float, float], looks_max: int) -> None:
        """Covers 2**`bits` units from `low` on each side, `per_unit` of them to 1.

        A cell's range is told with `margins` added below and above.
        """
        self._low_x, self._low_y = low[0], low[1]
        self._per_unit = per_unit
        self._below, self._above = margins
        self._root = self._cell(0, 0, max(0, bits - 1))
        self.looks_max = looks_max
        self.looked = 0

    def put(self, key: str, spot: Spot) -> None:
        """One more at a spot."""
        x, y = self._units(spot)
        cell = self._root
        path = []
        while True:
            path.append(cell)
            shift = cell.shift
            at = x >> shift & 1 | (y >> shift & 1) << 1
            part = cell.parts[at]
            if type(part) is not _Cell:
                break
            cell = part
        if part is None:
            cell.parts[at] = {spot: key}
        else:
            crowd = part.get(spot)
            if crowd is None:
                part[spot] = key
                if len(part) > LEAF_SPOTS_MAX and shift:
                    cell.parts[at] = self._divide(part, x, y, shift)
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
            at = x >> cell.shift & 1 | (y >> cell.shift & 1) << 1
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
        """Who is at a spot; an empty list when nobody is."""
        leaf = self._leaf(spot)
        return leaf.get(spot, []) if leaf else []

    def leaves(self, windows: list[Window]) -> list[Leaf]:
        """The leaves that may have something in the windows, each once.

        Raises:
            LimitExceeded: they have more than may be looked at.
        """
        self.looked = 0
        leaves = self._through(windows, inf)
        assert leaves is not None
        return leaves

    def within(self, lens: Lens, radius: float) -> list[Near]:
        """All at most `radius` away, sorted. Raises as `leaves`."""
        near: list[Near] = []
        for leaf in self.leaves(lens.windows(radius)):
            self._add(near, lens.sift(leaf, radius), None)
        near.sort()
        return near

    def nearest(self, lens: Lens, spot: Spot, count: int) -> list[Near]:
        """The `count` nearest, sorted. Raises as `leaves`."""
        self.looked = 0
        best: list[Near] = []
        # Whoever is in the same leaf is near, and bounds the rest: mostly to a few more.
        home = self._leaf(spot)
        bound = self._better(best, inf, home, lens, count) if home else inf
        few = self._through(lens.windows(bound), _FEW_SPOTS) if bound < inf else None
        if few is not None:
            for leaf in few:
                if leaf is not home:
                    bound = self._better(best, bound, leaf, lens, count)
            return best
        turn = 0
        heap: list[tuple[float, int, _Cell | Leaf]] = [(0.0, 0, self._root)]
        while heap:
            gap, _turn, part = heappop(heap)
            if gap > bound:
                break
            if type(part) is _Cell:
                self._look(1)
                for farther, inner in _parts(part, lens, bound):
                    turn += 1
                    heappush(heap, (farther, turn, inner))
            elif part is not home:
                bound = self._better(best, bound, part, lens, count)
        best.sort()
        return best

    def _through(self, windows: list[Window], spots_max: float) -> list[Leaf] | None:
        """The leaves seen through some windows, each once; None when they have more spots than that."""
        leaves: list[Leaf] = []
        spots = 0
        for (west, east), (south, north) in windows:
            x_low, y_low = self._units((west, south))
            x_high, y_high = self._units((east, north))
            cells = [self._root]
            while cells:
                cell = cells.pop()
                parts = cell.parts
                seen = []
                if y_low < cell.middle_y:
                    if x_low < cell.middle_x:
                        seen.append(parts[0])
                    if x_high >= cell.middle_x:
                        seen.append(parts[1])
                if y_high >= cell.middle_y:
                    if x_low < cell.middle_x:
                        seen.append(parts[2])
                    if x_high >= cell.middle_x:
                        seen.append(parts[3])
                for part in seen:
                    if type(part) is _Cell:
                        cells.append(part)
                    elif part is not None:
                        leaves.append(part)
                        spots += len(part)
                        if spots > spots_max:
                            return None
                        self._look(len(part))
                self._look(1)
        return leaves if len(windows) == 1 else list({id(leaf): leaf for leaf in leaves}.values())

    def _better(self, best: list[Near], bound: float, leaf: Leaf, lens: Lens, count: int) -> float:
        """Leaves in `best` the best of it and of a leaf, and tells how far the last is once there are `count`."""
        self._look(len(leaf))
        found = lens.sift(leaf, bound)
        if found:
            self._add(best, found, count)
            if len(best) >= count:
                best.sort()
                del best[count:]
                return best[-1][0]
        return bound

    def _add(self, near: list[Near], found: list[tuple[float, Crowd]], count: int | None) -> None:
        """Key by key; of a crowd only the first `count`."""
        for distance, crowd in found:
            if isinstance(crowd, str):
                near.append((distance, crowd))
            else:
                some = crowd[:count]
                self._look(len(some))
                near += [(distance, key) for key in some]

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
            part = part.parts[x >> part.shift & 1 | (y >> part.shift & 1) << 1]
        return part

    def _cell(self, x: int, y: int, shift: int) -> _Cell:
        """An empty one from a corner on."""
        ranges = []
        for low, units in ((self._low_x, x), (self._low_y, y)):
            start, middle, end = (low + (units + (part << shift)) / self._per_unit for part in range(3))
            ranges.append(((start - self._below, middle + self._above), (middle - self._below, end + self._above)))
        return _Cell(shift, x, y, *ranges)

    def _divide(self, leaf: Leaf, x: int, y: int, shift: int) -> _Cell:
        """A leaf around (x, y), with `shift` bits, as a cell."""
        mask = -1 << shift
        shift -= 1
        cell = self._cell(x & mask, y & mask, shift)
        cell.count = len(leaf)
        parts: dict[int, Leaf] = {}
        for spot, crowd in leaf.items():
            x, y = self._units(spot)
            parts.setdefault(x >> shift & 1 | (y >> shift & 1) << 1, {})[spot] = crowd
        for at, part in parts.items():
            if len(part) > LEAF_SPOTS_MAX and shift:
                cell.parts[at] = self._divide(part, *self._units(next(iter(part))), shift)
            else:
                cell.parts[at] = part
        return cell

    def _join(self, path: list[tuple[_Cell, int]]) -> None:
        """Makes a leaf of the first cell on a way from the root that has become empty enough; the root stays."""
        for (outer, at), (cell, _at) in pairwise(path):
            if cell.count <= JOINED_SPOTS_MAX:
                outer.parts[at] = dict(_spots(cell)) or None
                return


def _parts(cell: _Cell, lens: Lens, bound: float) -> list[tuple[float, _Cell | Leaf]]:
    """The parts of a cell that may have something within a bound, with how far away they are at least."""
    near = []
    gap_x, gap_y = lens.gap_x, lens.gap_y
    low_x, high_x = gap_x(*cell.low_x), gap_x(*cell.high_x)
    low_y, high_y = gap_y(*cell.low_y), gap_y(*cell.high_y)
    parts = cell.parts
    for x, y, part in (
        (low_x, low_y, parts[0]),
        (high_x, low_y, parts[1]),
        (low_x, high_y, parts[2]),
        (high_x, high_y, parts[3]),
    ):
        if part is not None and x <= bound and y <= bound:
            gap = lens.join(x, y)
            if gap <= bound:
                near.append((gap, part))
    return near


def _spots(part: _Cell | Leaf) -> Iterator[tuple[Spot, Crowd]]:
    if type(part) is _Cell:
        for inner in part.parts:
            if inner is not None:
                yield from _spots(inner)
    else:
        yield from part.items()
