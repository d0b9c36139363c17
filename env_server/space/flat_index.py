"""What grids, planes and the earth have in common: two coordinates, and a tree of who is where."""

from abc import ABC, abstractmethod
from itertools import product

from env_server.model.ports import Near, Vicinities
from env_server.model.spaces import Area, Box, Disc, NodeSet, Position
from env_server.space.checking import check_count, check_radius, refuse_field
from env_server.space.leaves import Spot
from env_server.space.spot_tree import Lens, Range, SpotTree


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
    def distance(self, one: Position, other: Position, *, hops: bool = False) -> float: ...

    @abstractmethod
    def _lens(self, position: Position) -> Lens:
        """How distances look from a position."""

    @abstractmethod
    def _intervals(self, box: Box) -> tuple[Interval, Interval]:
        """What a box covers."""

    @abstractmethod
    def _check_box(self, box: Box) -> None:
        """Raises as `check_area`."""

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
        if before is not None:
            self._tree.drop(key, before)
        self._spots[key] = spot
        self._tree.put(key, spot)

    def drop(self, key: str) -> None:
        spot = self._spots.pop(key, None)
        if spot is not None:
            self._tree.drop(key, spot)

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

    def adjacent(self, position: Position) -> list[Near]:
        raise refuse_field("adjacent", "the space has no cells")

    def in_box(self, box: Box) -> list[str]:
        self.check_area(box)
        x, y = self._intervals(box)
        keys: list[str] = []
        for leaf in self._tree.leaves([*product(x.ranges, y.ranges)]):
            for spot, crowd in leaf.spots():
                if spot[0] in x and spot[1] in y:
                    if isinstance(crowd, str):
                        keys.append(crowd)
                    else:
                        keys += crowd
        keys.sort()
        return keys

    def contains(self, area: Area, position: Position) -> bool:
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

    def check_area(self, area: Area) -> None:
        if isinstance(area, NodeSet):
            raise refuse_field("area", "nodes are of a graph")
        if isinstance(area, Disc):
            self.check(area.centre)
            check_radius(area.radius)
        else:
            self._check_box(area)
