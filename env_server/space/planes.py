"""The plane: Euclidean distances, on a torus to the nearest image."""

from math import hypot, isfinite

from env_server.model.limits import Limits
from env_server.model.ports import Vicinities
from env_server.model.spaces import Box, Plane, Position
from env_server.space.cell_tree import Window
from env_server.space.checking import check_radius, finite, refuse_field, refuse_position
from env_server.space.flat_index import FlatIndex, Interval
from env_server.space.leaves import Seen, Spots
from env_server.space.spot_tree import SpotTree
from env_server.space.surroundings import FlatLens, Surroundings

_BITS = 40
"""Spots nearer to each other than 2**-40 of the plane share a leaf, however many they are."""


class PlaneIndex(FlatIndex):
    """Entries on a plane."""

    def __init__(self, plane: Plane, limits: Limits) -> None:
        """Raises InvalidRequest, INVALID_FIELD: bounds that are none."""
        low, high = (plane.x_min, plane.y_min), (plane.x_max, plane.y_max)
        if not all(map(isfinite, low + high)):
            raise refuse_field("space.plane", "bounds are finite")
        self._width, self._height = plane.x_max - plane.x_min, plane.y_max - plane.y_min
        if not (self._width > 0 and self._height > 0):
            raise refuse_field("space.plane", "an upper bound lies above the lower one")
        side = max(self._width, self._height)
        per_unit = ((1 << _BITS) - 1) / side
        if not isfinite(hypot(self._width, self._height)) or not isfinite(per_unit):
            raise refuse_field("space.plane", "a side is too long or too short for a double")
        self._plane = plane
        # Units are found by rounding, less than one unit and an ulp of the bounds away from what they would be.
        rounding = max(map(abs, low + high)) * 2.0**-50
        slack = 2.0 / per_unit + rounding
        self._around_x = Surroundings((plane.x_min, plane.x_max), rounding, closed=plane.torus)
        self._around_y = Surroundings((plane.y_min, plane.y_max), rounding, closed=plane.torus)
        tree = SpotTree(low, per_unit=per_unit, bits=_BITS, margins=(slack, slack), looks_max=limits.space_looks_max)
        self._limits = limits
        super().__init__(tree, seam=low if plane.torus else (None, None))

    def apart(self) -> "PlaneIndex":
        return PlaneIndex(self._plane, self._limits)

    def check(self, position: Position) -> Position:
        plane = self._plane
        if len(position) == 2:  # as most are; whatever is wrong is told below
            x, y = position
            if type(x) is float and type(y) is float and self._is_inside(x, y):
                return x + 0.0, y + 0.0
        x, y = numbers = finite(position, 2)
        if not (plane.x_min <= x <= plane.x_max and plane.y_min <= y <= plane.y_max):
            raise refuse_position(f"({x:.17g}, {y:.17g}) lies outside the plane")
        if plane.torus and (x == plane.x_max or y == plane.y_max):
            raise refuse_position("the upper bounds of a torus are its lower ones again, and no positions")
        return numbers

    def _is_inside(self, x: float, y: float) -> bool:
        plane = self._plane
        if plane.torus:
            return plane.x_min <= x < plane.x_max and plane.y_min <= y < plane.y_max
        return plane.x_min <= x <= plane.x_max and plane.y_min <= y <= plane.y_max

    def distance(self, one: Position, other: Position, *, hops: bool = False) -> float:
        x, y = abs(one[0] - other[0]), abs(one[1] - other[1])
        if self._plane.torus:
            x, y = min(x, self._width - x), min(y, self._height - y)
        return hypot(x, y)

    def vicinities(self, radius: float) -> Vicinities:
        check_radius(radius)
        from env_server.space.cell_lists import CellLists, sift_plane

        return CellLists(radius, self._around_x, self._around_y, sift_plane, self.looks_max)

    def _lens(self, position: Position) -> "_PlaneLens":
        return _PlaneLens(position, self._around_x, self._around_y)

    def _check_box(self, box: Box) -> None:
        plane = self._plane
        for corner in (finite(box.low, 2), finite(box.high, 2)):
            if not (plane.x_min <= corner[0] <= plane.x_max and plane.y_min <= corner[1] <= plane.y_max):
                raise refuse_position("a corner lies outside the plane")
        if not plane.torus and (box.low[0] > box.high[0] or box.low[1] > box.high[1]):
            raise refuse_field("box", "a lower bound is greater than the upper one")

    def _intervals(self, box: Box) -> tuple[Interval, Interval]:
        plane = self._plane
        return (
            Interval(box.low[0], box.high[0], (plane.x_min, plane.x_max), closed=plane.torus),
            Interval(box.low[1], box.high[1], (plane.y_min, plane.y_max), closed=plane.torus),
        )


class _PlaneLens(FlatLens):
    join = staticmethod(hypot)

    def _sift_window(self, spots: Spots, bound: float, window: Window) -> Seen:
        here_x, here_y = self.x, self.y
        (west, east), (south, north) = window
        # Most spots lie outside, which is seen sooner than how far away they are.
        return [
            (distance, row)
            for x, y, row in spots.rows()
            if west <= x <= east and south <= y <= north and (distance := hypot(x - here_x, y - here_y)) <= bound
        ]

    def estimate(self, spots: Spots) -> Seen:
        # On a torus this may be the long way round: rather too far than too near.
        here_x, here_y = self.x, self.y
        return [(hypot(x - here_x, y - here_y), row) for x, y, row in spots.rows()]

    def _sift_across(self, spots: Spots, bound: float) -> Seen:
        here_x, here_y, width, height = self.x, self.y, self.around_x.length, self.around_y.length
        found = []
        for x, y, row in spots.rows():
            x, y = abs(x - here_x), abs(y - here_y)
            distance = hypot(x if x + x <= width else width - x, y if y + y <= height else height - y)
            if distance <= bound:
                found.append((distance, row))
        return found
