"""What grids, planes and the earth have in common: two coordinates, and a tree of who is where."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import product

from env_server.model.ports import Areas, Near, Vicinities
from env_server.model.spaces import Area, Box, Disc, NodeSet, Position
from env_server.space.areas import FlatAreas
from env_server.space.cell_tree import Range, Window
from env_server.space.checking import check_count, check_radius, refuse_field
from env_server.space.leaves import Spot
from env_server.space.spot_tree import Lens, SpotTree


class Interval:
    """What a box covers of an axis, its ends included: one or two ranges.

    Of a closed axis, where the ends of `axis` are one, it may lead across them.
    """

    __slots__ = ("ranges",)

    def __init__(self, low: float, high: float, axis: Range, *, closed: bool) -> None:
        self.ranges = [(low, high)] if low <= high else [(low, axis[1]), (axis[0], high)]
        if closed and axis[1] in self:
            self.ranges.append((axis[0], axis[0]))

    def __contains__(self, value: float) -> bool:
        return any(low <= value <= high for low, high in self.ranges)


class FlatIndex(ABC):
    """The positions of entries with two coordinates. See `SpaceIndex` for what its methods promise."""

    dimensions = 2

    def __init__(
        self, tree: SpotTree, *, seam: tuple[float | None, float | None] = (None, None), capacity: int = 0
    ) -> None:
        """`seam`: the x and the y that have a second name, at the other end of the axis."""
        self._tree = tree
        self._seam = seam
        self._capacity = capacity
        self._spots: dict[str, Spot] = {}

    @abstractmethod
    def check(self, position: Position) -> Position: ...

    @abstractmethod
    def apart(self) -> "FlatIndex": ...

    @abstractmethod
    def distance(self, one: Position, other: Position, *, hops: bool = False) -> float: ...

    @abstractmethod
    def _lens(self, position: Position) -> Lens:
        """How distances look from a position."""

    @abstractmethod
    def _intervals(self, box: Box) -> tuple[Interval, Interval]:
        """What a box covers."""

    @abstractmethod
    def _check_box(self, box: Box) -> None:
        """Raises as `accept_areas`."""

    def _spot(self, position: Position) -> Spot:
        return position

    @property
    def looked(self) -> int:
        return self._tree.looked

    @property
    def looks_max(self) -> int:
        return self._tree.looks_max

    @looks_max.setter
    def looks_max(self, looks_max: int) -> None:
        self._tree.looks_max = looks_max

    def __len__(self) -> int:
        return len(self._spots)

    def put(self, key: str, position: Position) -> None:
        spot = self._spot(position)
        before = self._spots.get(key)
        if before == spot:
            return
        self._spots[key] = spot
        if before is None:
            self._tree.put(key, spot)
        else:
            self._tree.move(key, before, spot)

    def drop(self, key: str) -> None:
        spot = self._spots.pop(key, None)
        if spot is not None:
            self._tree.drop(key, spot)

    def let_go(self, items_max: int) -> int:
        count = min(items_max, len(self._spots))
        for _ in range(count):
            self._spots.popitem()
        return count or self._tree.let_go(items_max)

    def is_full(self, position: Position) -> bool:
        if not self._capacity:
            return False
        crowd = self._tree.crowd(self._spot(position))
        return (1 if isinstance(crowd, str) else len(crowd)) >= self._capacity

    def way(self, one: Position, other: Position, *, hops: bool = False) -> tuple[int, ...]:
        return ()

    def within(self, position: Position, radius: float, *, hops: bool = False) -> list[Near]:
        check_radius(radius)
        return self._tree.within(self._lens(self.check(position)), radius)

    def vicinities(self, radius: float) -> Vicinities | None:
        check_radius(radius)
        return None

    def nearest(self, position: Position, count: int, *, hops: bool = False) -> list[Near]:
        check_count(count)
        position = self.check(position)
        return self._tree.nearest(self._lens(position), position, count)

    def places(self) -> list[Position]:
        return self._tree.places()

    def adjacent(self, position: Position) -> list[Near]:
        raise refuse_field("adjacent", "the space has no cells")

    def in_box(self, box: Box) -> list[str]:
        self._check_box(box)
        return self._tree.inside(self._windows(box), lambda spot: self.contains(box, spot))

    def contains(self, area: Area, position: Position) -> bool:
        """Whether the position lies in the area, its border included."""
        if isinstance(area, Disc):
            return self.distance(area.centre, position) <= area.radius
        if isinstance(area, NodeSet):
            return False
        (west, south), (east, north) = area.low, area.high
        if west <= position[0] <= east and south <= position[1] <= north:
            return True
        if west <= east and south <= north and position[0] != self._seam[0] and position[1] != self._seam[1]:
            return False
        x, y = self._intervals(area)
        return position[0] in x and position[1] in y

    def areas(self, areas: Sequence[Area]) -> FlatAreas:
        return FlatAreas(areas, self._windows, self.contains)

    def _windows(self, area: Area) -> list[Window]:
        """Rectangles that hold all of an accepted area."""
        if isinstance(area, Disc):
            return self._lens(self.check(area.centre)).windows(area.radius)
        assert isinstance(area, Box)
        x, y = self._intervals(area)
        return [*product(x.ranges, y.ranges)]

    def accept_areas(self, areas: Sequence[Area], before: Areas | None = None) -> FlatAreas:
        for area in areas:
            self._check_area(area)
        return self.areas(areas)

    def _check_area(self, area: Area) -> None:
        if isinstance(area, NodeSet):
            raise refuse_field("area", "nodes are of a graph")
        if isinstance(area, Disc):
            self.check(area.centre)
            check_radius(area.radius)
        else:
            self._check_box(area)
