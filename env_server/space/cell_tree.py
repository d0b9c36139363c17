"""Cells over a rectangle, which follow who is there: crowded ones are divided finer, deserted ones joined again.

A cell is divided into four once it has more than `LEAF_SPOTS_MAX` different positions. Which cell a position
belongs to is decided by whole numbers, so borders are the same for whoever asks; the rectangles that cells cover are
told a little too large rather than too small.
"""

from typing import Final, final

from env_server.space.leaves import Crowd, Leaf, Spot

Range = tuple[float, float]
"""From one coordinate to another, both included."""
Window = tuple[Range, Range]
"""A range of x and one of y."""

LEAF_SPOTS_MAX: Final = 32
JOINED_SPOTS_MAX: Final = LEAF_SPOTS_MAX // 2
"""A divided cell with no more than these is joined: so far below that one that comes and goes changes nothing."""
_EVERYTHING: Final = 1 << 62


@final
class Cell:
    """A divided one, of four parts: low x and low y, high x and low y, low x and high y, high x and high y.

    `shift`: bits of a coordinate that tell places within a part. The high parts begin at (`middle_x`, `middle_y`), in
    units. The ranges are what the parts cover, with margins.
    """

    __slots__ = (
        "at",
        "count",
        "high_x",
        "high_y",
        "low_x",
        "low_y",
        "middle_x",
        "middle_y",
        "parent",
        "parts",
        "shift",
    )

    def __init__(
        self,
        parent: "Cell | None",
        at: int,
        shift: int,
        x: int,
        y: int,
        xs: tuple[Range, Range],
        ys: tuple[Range, Range],
    ) -> None:
        self.parent = parent
        self.at = at
        self.shift = shift
        self.middle_x = x + (1 << shift)
        self.middle_y = y + (1 << shift)
        self.low_x, self.high_x = xs
        self.low_y, self.high_y = ys
        self.count = 0
        self.parts: list[Cell | Leaf | None] = [None] * 4


class CellTree:
    """Who is where, and how that is kept."""

    def __init__(self, low: Spot, *, per_unit: float, bits: int, margins: tuple[float, float]) -> None:
        """Covers 2**`bits` units from `low` on each side, `per_unit` of them to 1.

        A cell's range is told with `margins` added below and above.
        """
        self._low_x, self._low_y = low[0], low[1]
        self._per_unit = per_unit
        self._below, self._above = margins
        self._root = self._cell(None, 0, 0, 0, max(0, bits - 1))
        #: The leaf that each key was put into; one that has retired says so.
        self._homes: dict[str, Leaf] = {}

    def put(self, key: str, spot: Spot) -> None:
        """One more at a spot."""
        self._put(key, spot, self._root)

    def move(self, key: str, before: Spot, spot: Spot) -> None:
        """As `drop` and `put`, for somebody who mostly does not go far."""
        home = self._homes[key]
        if home.west <= spot[0] < home.east and home.south <= spot[1] < home.north and home.move(before, spot):
            return
        cell = home.parent or self._root  # a leaf that has retired has none
        if self.drop(key, before):
            cell = self._root
        x, y = self._units(spot)
        # Up to a cell that has the spot, too: mostly the next one.
        while cell.parent is not None:
            above = cell.shift + 1
            if x >> above == cell.middle_x >> above and y >> above == cell.middle_y >> above:
                break
            cell = cell.parent
        self._put(key, spot, cell)

    def drop(self, key: str, spot: Spot) -> bool:
        """One less at a spot; it must be there. Whether cells were joined, so that parts of the tree are no more."""
        leaf = self._homes.pop(key)
        if leaf.is_retired:
            leaf = self._leaf(spot)  # type: ignore[assignment]
        if not leaf.drop(key, spot):
            return False
        cell: Cell | None = leaf.parent
        if not leaf:
            leaf.parent.parts[leaf.at] = None
            leaf.retire()
        sparse = None
        while cell is not None:
            cell.count -= 1
            if cell.count <= JOINED_SPOTS_MAX and cell.parent is not None:
                sparse = cell
            cell = cell.parent
        if sparse is None:
            return False
        self._join(sparse)
        return True

    def _put(self, key: str, spot: Spot, cell: Cell) -> None:
        """`put`, somewhere in a cell."""
        x, y = self._units(spot)
        while True:
            shift = cell.shift
            at = x >> shift & 1 | (y >> shift & 1) << 1
            part = cell.parts[at]
            if type(part) is not Cell:
                break
            cell = part
        if part is None:
            part = cell.parts[at] = self._new_leaf(cell, at, len(spot))
        self._homes[key] = part
        if part.put(key, spot):
            outer: Cell | None = cell
            while outer is not None:
                outer.count += 1
                outer = outer.parent
            if len(part) > LEAF_SPOTS_MAX and shift:
                cell.parts[at] = self._divide(cell, at, part.spots(), x, y)
                part.retire()

    def let_go(self, spots_max: int) -> int:
        """Frees about so many spots, and returns how many; 0 = none are left. Nothing else may be done with it then."""
        freed = 0
        while self._homes and freed < spots_max:
            self._homes.popitem()
            freed += 1
        parts = self._root.parts
        while parts and freed < spots_max:
            part = parts.pop()
            if part is None:
                continue
            part.parent = None
            if type(part) is Cell:
                parts += part.parts
                part.parts = []
                freed += 1
            else:
                freed += len(part)
        return freed

    def __del__(self) -> None:
        # Parts know whose they are, and nothing looks for cycles in a server.
        self._homes.clear()
        self.let_go(_EVERYTHING)

    def crowd(self, spot: Spot) -> Crowd:
        """Who is at a spot; an empty list when nobody is."""
        leaf = self._leaf(spot)
        return leaf.crowd(spot) if leaf else []

    def _units(self, spot: Spot) -> tuple[int, int]:
        return int((spot[0] - self._low_x) * self._per_unit), int((spot[1] - self._low_y) * self._per_unit)

    def _leaf(self, spot: Spot) -> Leaf | None:
        x, y = self._units(spot)
        part: Cell | Leaf | None = self._root
        while type(part) is Cell:
            part = part.parts[x >> part.shift & 1 | (y >> part.shift & 1) << 1]
        return part

    def _cell(self, parent: Cell | None, at: int, x: int, y: int, shift: int) -> Cell:
        """An empty one from a corner on."""
        ranges = []
        for low, units in ((self._low_x, x), (self._low_y, y)):
            start, middle, end = (low + (units + (part << shift)) / self._per_unit for part in range(3))
            ranges.append(((start - self._below, middle + self._above), (middle - self._below, end + self._above)))
        return Cell(parent, at, shift, x, y, *ranges)

    def _divide(self, outer: Cell, place: int, spots: list[tuple[Spot, Crowd]], x: int, y: int) -> Cell:
        """Spots around (x, y), which are a part of a cell, as a cell."""
        shift = outer.shift
        mask = -1 << shift
        shift -= 1
        cell = self._cell(outer, place, x & mask, y & mask, shift)
        cell.count = len(spots)
        parts: dict[int, list[tuple[Spot, Crowd]]] = {}
        for spot, crowd in spots:
            x, y = self._units(spot)
            parts.setdefault(x >> shift & 1 | (y >> shift & 1) << 1, []).append((spot, crowd))
        for at, some in parts.items():
            if len(some) > LEAF_SPOTS_MAX and shift:
                cell.parts[at] = self._divide(cell, at, some, *self._units(some[0][0]))
            else:
                cell.parts[at] = self._as_leaf(cell, at, some)
        return cell

    def _new_leaf(self, cell: Cell, at: int, width: int) -> Leaf:
        """An empty one, to be a part of a cell; only what surely belongs to it does so without a look at its units."""
        size = 1 << cell.shift
        lows, highs = [], []
        for low, middle, is_high in (
            (self._low_x, cell.middle_x, at & 1),
            (self._low_y, cell.middle_y, at & 2),
        ):
            start = middle if is_high else middle - size
            lows.append(low + start / self._per_unit + self._below)
            highs.append(low + (start + size) / self._per_unit - max(self._above, 0.0))
        return Leaf(cell, at, width, tuple(lows), tuple(highs))

    def _as_leaf(self, cell: Cell, at: int, spots: list[tuple[Spot, Crowd]]) -> Leaf:
        leaf = self._new_leaf(cell, at, len(spots[0][0]))
        for spot, crowd in spots:
            leaf.add(spot, crowd)
            if isinstance(crowd, str):  # who shares a spot never moves within a leaf
                self._homes[crowd] = leaf
        return leaf

    def _join(self, cell: Cell) -> None:
        """Makes a leaf of a cell that has become empty enough; the root stays."""
        outer, at = cell.parent, cell.at
        assert outer is not None
        spots = _take_apart(cell)
        outer.parts[at] = self._as_leaf(outer, at, spots) if spots else None


def leaves_of(cell: Cell) -> list[Leaf]:
    """All leaves of a cell."""
    leaves: list[Leaf] = []
    for part in cell.parts:
        if type(part) is Cell:
            leaves += leaves_of(part)
        elif part is not None:
            leaves.append(part)
    return leaves


def _take_apart(cell: Cell) -> list[tuple[Spot, Crowd]]:
    """All spots of a cell, of which nothing is left."""
    spots: list[tuple[Spot, Crowd]] = []
    for part in cell.parts:
        if type(part) is Cell:
            spots += _take_apart(part)
        elif part is not None:
            spots += part.spots()
            part.retire()
    cell.parent = None
    cell.parts = []
    return spots
