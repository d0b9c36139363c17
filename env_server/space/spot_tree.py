"""Who is near, in cells that follow who is where: most questions look at one leaf and those next to it."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Final, Protocol

from env_server.model.errors import LimitExceeded
from env_server.model.ports import Near
from env_server.model.spaces import Position
from env_server.space.cell_tree import LEAF_SPOTS_MAX, Cell, CellTree, Window, leaves_of
from env_server.space.leaves import Found, Leaf, Seen, Spot, Spots, bound_of, distance_of

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


class SpotTree(CellTree):
    """Who is where. `looked` is what the last query looked at: cells, spots and keys together."""

    def __init__(self, low: Spot, *, per_unit: float, bits: int, margins: tuple[float, float], looks_max: int) -> None:
        """As of `CellTree`; a query may look at `looks_max`."""
        super().__init__(low, per_unit=per_unit, bits=bits, margins=margins)
        self.looks_max = looks_max
        self.looked = 0
        self._told: list[_Told] = []

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
        places: list[Position] = []
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
        heap: list[tuple[float, int, Cell | Leaf]] = [(0.0, 0, self._root)]
        while heap:
            gap, _turn, part = heappop(heap)
            if gap > bound:
                break
            if type(part) is Cell:
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
        around: Cell | None = None
        part: Cell | Leaf | None = self._root
        x, y = self._units(spot)
        while type(part) is Cell:
            if part.count >= count:
                around = part
            shift = part.shift
            part = part.parts[x >> shift & 1 | (y >> shift & 1) << 1]
        home: list[Leaf] = [] if part is None else [part]
        if around is not None and around.count <= _HOME_SPOTS_MAX and (part is None or len(part) < count):
            home = leaves_of(around)
        if not home:
            return inf
        self._look(sum(map(len, home)))
        if any(leaf.shared for leaf in home):
            found: Found = [(distance, row, leaf) for leaf in home for distance, row in lens.estimate(leaf)]
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
            part: Cell | Leaf | None = self._root
            while type(part) is Cell:
                shift = part.shift
                if (x_low ^ x_high | y_low ^ y_high) >> shift & 1:
                    break
                part = part.parts[x_low >> shift & 1 | (y_low >> shift & 1) << 1]
            if type(part) is not Cell:
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
                    if type(part) is Cell:
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


def _parts(cell: Cell, lens: Lens, bound: float) -> list[tuple[float, Cell | Leaf]]:
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
