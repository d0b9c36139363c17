"""An index of positions in a rectangle that follows them: crowded parts are divided finer, deserted ones joined again.

A cell is divided into four once it has more than `LEAF_SPOTS_MAX` different positions. Which cell a position
belongs to is decided by whole numbers, so borders are the same for whoever asks; the rectangles that cells cover are
told a little too large rather than too small.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from math import inf
from typing import Final, Protocol, final

from env_server.model.errors import LimitExceeded
from env_server.model.ports import Near
from env_server.model.spaces import Position
from env_server.space.leaves import Crowd, Found, Leaf, Seen, Spot, Spots, bound_of, distance_of

Range = tuple[float, float]
"""From one coordinate to another, both included."""
Window = tuple[Range, Range]
"""A range of x and one of y."""

LEAF_SPOTS_MAX: Final = 32
JOINED_SPOTS_MAX: Final = LEAF_SPOTS_MAX // 2
"""A divided cell with no more than these is joined: so far below that one that comes and goes changes nothing."""
_Told = tuple[float, str, int, Spots]
"""How far away, who, and in which row of which spots."""
_HOME_SPOTS_MAX: Final = 4 * LEAF_SPOTS_MAX
"""In a cell with more, the nearest may be much nearer than most."""
_FEW_LOOKS: Final = 400
"""So many are looked at in any order; more are looked at from the nearest part on."""


class Lens(Protocol):
    """How a query sees distances from where it stands."""

    def sift(self, spots: Spots, bound: float) -> Seen:
        """Those at most `bound` away."""

    def estimate(self, spots: Spots) -> Seen:
        """All, and how far away they are; rather too much than too little."""

    def gather(self, leaves: Sequence[Spots], bound: float, count: int) -> Found:
        """At least the `count` nearest keys of several leaves, all of them at most `bound` away."""

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
        self._told: list[_Told] = []

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
            part = cell.parts[at] = Leaf(len(spot))
        if part.put(key, spot):
            for cell in path:
                cell.count += 1
            if len(part) > LEAF_SPOTS_MAX and shift:
                cell.parts[at] = self._divide(part.spots(), x, y, shift)

    def move(self, key: str, before: Spot, spot: Spot) -> None:
        """As `drop` and `put`, for somebody who mostly does not go far."""
        x, y = self._units(before)
        to_x, to_y = self._units(spot)
        part: _Cell | Leaf | None = self._root
        while type(part) is _Cell:
            shift = part.shift
            if (x ^ to_x | y ^ to_y) >> shift & 1:
                break
            part = part.parts[x >> shift & 1 | (y >> shift & 1) << 1]
        else:
            if part.move(before, spot):  # type: ignore[union-attr]
                return
        self.drop(key, before)
        self.put(key, spot)

    def drop(self, key: str, spot: Spot) -> None:
        """One less at a spot; it must be there."""
        x, y = self._units(spot)
        path = []
        part: _Cell | Leaf | None = self._root
        while type(part) is _Cell:
            cell = part
            shift = cell.shift
            at = x >> shift & 1 | (y >> shift & 1) << 1
            path.append((cell, at))
            part = cell.parts[at]
        assert part is not None
        if part.drop(key, spot):
            if not part:
                cell.parts[at] = None
            for cell, _at in path:
                cell.count -= 1
            self._join(path)

    def let_go(self, spots_max: int) -> int:
        """Frees about so many spots, and returns how many; 0 = none are left. Nothing else may be done with it then."""
        freed = 0
        parts = self._root.parts
        while parts and freed < spots_max:
            part = parts.pop()
            if type(part) is _Cell:
                parts += part.parts
                freed += 1
            elif part is not None:
                freed += len(part)
        return freed

    def crowd(self, spot: Spot) -> Crowd:
        """Who is at a spot; an empty list when nobody is."""
        leaf = self._leaf(spot)
        return leaf.crowd(spot) if leaf else []

    def leaves(self, windows: list[Window]) -> list[Leaf]:
        """The leaves that may have something in the windows, each once.

        Raises:
            LimitExceeded: they have more than may be looked at.
        """
        self.looked = 0
        leaves = self._through(windows, self.looks_max)
        if leaves is None:
            raise LimitExceeded("space_looks_max", self.looks_max, self.looked)
        return leaves

    def within(self, lens: Lens, radius: float) -> list[Near]:
        """All at most `radius` away, sorted. Raises as `leaves`."""
        near: list[_Told] = []
        for leaf in self.leaves(lens.windows(radius)):
            crowds = leaf.crowds
            for distance, row in lens.sift(leaf, radius):
                crowd = crowds[row]
                if isinstance(crowd, str):
                    near.append((distance, crowd, row, leaf))
                else:
                    self._look(len(crowd))
                    near += [(distance, key, row, leaf) for key in crowd]
        return self._tell(near)

    def places(self) -> list[Position]:
        """Where those are whom the last `within` or `nearest` told, in its order; nothing may have moved since."""
        places = []
        for _, _, row, leaf in self._told:
            xs, ys = leaf.columns[0], leaf.columns[1]
            places.append((xs[row], ys[row]))
        return places

    def inside(self, windows: list[Window], accept: Callable[[Spot], bool]) -> list[str]:
        """Keys of all at accepted spots in the windows, sorted. Raises as `leaves`."""
        keys: list[str] = []
        for leaf in self.leaves(windows):
            for spot, crowd in leaf.spots():
                if accept(spot):
                    if isinstance(crowd, str):
                        keys.append(crowd)
                    else:
                        self._look(len(crowd))
                        keys += crowd
        keys.sort()
        return keys

    def nearest(self, lens: Lens, spot: Spot, count: int) -> list[Near]:
        """The `count` nearest, sorted. Raises as `leaves`."""
        self.looked = 0
        bound = self._bound(lens, spot, count)
        few = self._through(lens.windows(bound), min(_FEW_LOOKS, self.looks_max // 2)) if bound < inf else None
        if few is not None:
            return self._first(lens.gather(few, bound, count), count)
        found: Found = []
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
            else:
                self._look(len(part))
                found += [(distance, row, part) for distance, row in lens.sift(part, bound)]
                found.sort(key=distance_of)
                bound = min(bound, bound_of(found, count))
                if bound < inf:
                    del found[bisect_right(found, bound, key=distance_of) :]
        return self._first(found, count)

    def _bound(self, lens: Lens, spot: Spot, count: int) -> float:
        """How far away the nearest are at most: whoever is in the same part is near, and mostly that leaves few more.

        Infinite where that part is too crowded, or too deserted, to say.
        """
        around: _Cell | None = None
        part: _Cell | Leaf | None = self._root
        x, y = self._units(spot)
        while type(part) is _Cell:
            if part.count >= count:
                around = part
            shift = part.shift
            part = part.parts[x >> shift & 1 | (y >> shift & 1) << 1]
        home: list[Leaf] = [] if part is None else [part]  # type: ignore[list-item]
        if around is not None and around.count <= _HOME_SPOTS_MAX and (part is None or len(part) < count):
            home = _leaves(around)
        if not home:
            return inf
        self._look(sum(map(len, home)))
        if any(leaf.shared for leaf in home):
            found = [(distance, row, leaf) for leaf in home for distance, row in lens.estimate(leaf)]
            found.sort(key=distance_of)
            return bound_of(found, count)
        seen = lens.estimate(home[0])
        for leaf in home[1:]:
            seen += lens.estimate(leaf)
        seen.sort()
        return seen[count - 1][0] if len(seen) >= count else inf

    def _through(self, windows: list[Window], looks_max: int) -> list[Leaf] | None:
        """The leaves seen through some windows, each once; None as soon as there are more looks than that."""
        leaves: list[Leaf] = []
        looked = 0
        for (west, east), (south, north) in windows:
            x_low, y_low = self._units((west, south))
            x_high, y_high = self._units((east, north))
            part: _Cell | Leaf | None = self._root
            while type(part) is _Cell:
                shift = part.shift
                if (x_low ^ x_high | y_low ^ y_high) >> shift & 1:
                    break
                part = part.parts[x_low >> shift & 1 | (y_low >> shift & 1) << 1]
            if type(part) is not _Cell:
                if part is not None:
                    leaves.append(part)
                    looked += len(part.crowds)
                cells = []
            else:
                cells = [part]
            while cells and looked <= looks_max:
                cell = cells.pop()
                first = 0 if y_low < cell.middle_y else 2
                last = 4 if y_high >= cell.middle_y else 2
                if x_high < cell.middle_x:
                    seen = cell.parts[first:last:2]
                elif x_low >= cell.middle_x:
                    seen = cell.parts[first + 1 : last : 2]
                else:
                    seen = cell.parts[first:last]
                looked += 1
                for part in seen:
                    if type(part) is _Cell:
                        cells.append(part)
                    elif part is not None:
                        leaves.append(part)
                        looked += len(part.crowds)
            if looked > looks_max:
                self.looked += looked
                return None
        self.looked += looked
        return leaves if len(windows) == 1 else list({id(leaf): leaf for leaf in leaves}.values())

    def _first(self, found: Found, count: int) -> list[Near]:
        """Key by key the first `count` of what was found."""
        found.sort(key=distance_of)
        near: list[_Told] = []
        for distance, row, leaf in found:
            # Of equal distance the first keys count: all of them are looked at.
            if len(near) >= count and distance > near[-1][0]:
                break
            crowd = leaf.crowds[row]
            if isinstance(crowd, str):
                near.append((distance, crowd, row, leaf))
            else:
                # Nobody is added before all of them may be looked at.
                self._look(min(count, len(crowd)))
                near += [(distance, key, row, leaf) for key in crowd[:count]]
        return self._tell(near, count)

    def _tell(self, near: list[_Told], count: int | None = None) -> list[Near]:
        near.sort()  # no two have the same key, so what stands behind it is never compared
        if count is not None:
            del near[count:]
        self._told = near
        return [(distance, key) for distance, key, _, _ in near]

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

    def _divide(self, spots: list[tuple[Spot, Crowd]], x: int, y: int, shift: int) -> _Cell:
        """Spots around (x, y), with `shift` bits, as a cell."""
        mask = -1 << shift
        shift -= 1
        cell = self._cell(x & mask, y & mask, shift)
        cell.count = len(spots)
        parts: dict[int, list[tuple[Spot, Crowd]]] = {}
        for spot, crowd in spots:
            x, y = self._units(spot)
            parts.setdefault(x >> shift & 1 | (y >> shift & 1) << 1, []).append((spot, crowd))
        for at, some in parts.items():
            if len(some) > LEAF_SPOTS_MAX and shift:
                cell.parts[at] = self._divide(some, *self._units(some[0][0]), shift)
            else:
                cell.parts[at] = _as_leaf(some)
        return cell

    def _join(self, path: list[tuple[_Cell, int]]) -> None:
        """Makes a leaf of the first cell on a way from the root that has become empty enough; the root stays."""
        for (outer, at), (cell, _at) in pairwise(path):
            if cell.count <= JOINED_SPOTS_MAX:
                outer.parts[at] = _as_leaf(_spots(cell)) if cell.count else None
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


def _as_leaf(spots: list[tuple[Spot, Crowd]]) -> Leaf:
    leaf = Leaf(len(spots[0][0]))
    for spot, crowd in spots:
        leaf.add(spot, crowd)
    return leaf


def _leaves(cell: _Cell) -> list[Leaf]:
    leaves: list[Leaf] = []
    for part in cell.parts:
        if type(part) is _Cell:
            leaves += _leaves(part)
        elif part is not None:
            leaves.append(part)
    return leaves


def _spots(cell: _Cell) -> list[tuple[Spot, Crowd]]:
    spots = []
    for part in cell.parts:
        if part is not None:
            spots += _spots(part) if type(part) is _Cell else part.spots()
    return spots
