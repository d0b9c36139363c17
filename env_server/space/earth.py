"""The earth: geodesics on the ellipsoid WGS84, measured by PROJ."""

from collections.abc import Sequence
from itertools import product
from math import asin, cos, degrees, dist, hypot, pi, radians, sin, sqrt

from pyproj import Geod

from env_server.model.limits import Limits
from env_server.model.spaces import Area, Box, Disc, Position
from env_server.space.cell_tree import Window
from env_server.space.checking import finite, refuse_field, refuse_position
from env_server.space.flat_index import FlatIndex, Interval
from env_server.space.leaves import Found, Seen, Spot, Spots
from env_server.space.spot_tree import SpotTree
from env_server.space.surroundings import Surroundings

_ELLIPSOID = Geod(ellps="WGS84")
_measure = _ELLIPSOID.inv
_SQUARED_ECCENTRICITY = _ELLIPSOID.es
_EQUATOR_M = _ELLIPSOID.a
_CURVED_M = _EQUATOR_M * (1 - _SQUARED_ECCENTRICITY)
"""The least radius of curvature: of meridians at the equator."""
_DEGREE_M = radians(_CURVED_M)
"""Metres along a meridian to a degree of latitude, there where they are the fewest."""
_MARGIN_M = 0.001
"""More than all roundings, of bounds and of geodesics (some nanometres), together."""
_BITS = 40
_LONGITUDES = Surroundings((-180.0, 180.0), 1e-9, closed=True)
_LATITUDES = Surroundings((-90.0, 90.0), 1e-9, closed=False)


class EarthIndex(FlatIndex):
    """Entries on the earth."""

    def __init__(self, limits: Limits) -> None:
        side = 360.0
        per_unit = ((1 << _BITS) - 1) / side
        slack = 2.0 / per_unit
        tree = SpotTree(
            (-180.0, -90.0), per_unit=per_unit, bits=_BITS, margins=(slack, slack), looks_max=limits.space_looks_max
        )
        self._limits = limits
        super().__init__(tree, seam=(-180.0, None))

    def apart(self) -> "EarthIndex":
        return EarthIndex(self._limits)

    def check(self, position: Position) -> Position:
        longitude, latitude = finite(position, 2)
        if not -180 <= longitude <= 180:
            raise refuse_position(f"longitude {longitude:.17g} is not in [-180, 180]")
        if not -90 <= latitude <= 90:
            raise refuse_position(f"latitude {latitude:.17g} is not in [-90, 90]")
        if abs(latitude) == 90:
            return 0.0, latitude
        # As in ISO 6709.
        return (-180.0 if longitude == 180 else longitude), latitude

    def distance(self, one: Position, other: Position, *, hops: bool = False) -> float:
        if one == other:
            return 0.0
        # The two directions of a geodesic may differ in their last bits.
        if one > other:
            one, other = other, one
        metres: float = _measure(one[0], one[1], other[0], other[1])[2]
        return metres

    def _spot(self, position: Position) -> Spot:
        return position + _cartesian(position)

    def _lens(self, position: Position) -> "_EarthLens":
        return _EarthLens(self, position)

    def _check_box(self, box: Box) -> None:
        self.check(box.low)
        self.check(box.high)
        if box.low[1] > box.high[1]:
            raise refuse_field("box", "its south lies north of its north")

    def _intervals(self, box: Box) -> tuple[Interval, Interval]:
        return (
            Interval(box.low[0], box.high[0], (-180.0, 180.0), closed=True),
            Interval(box.low[1], box.high[1], (-90.0, 90.0), closed=False),
        )

    def contains(self, area: Area, position: Position) -> bool:
        if isinstance(area, Disc):
            if abs(area.centre[1] - position[1]) * _DEGREE_M > area.radius + _MARGIN_M:
                return False
            return self.distance(self.check(area.centre), position) <= area.radius
        if isinstance(area, Box) and abs(position[1]) == 90:
            return area.low[1] <= position[1] <= area.high[1]
        return super().contains(area, position)

    def _windows(self, area: Area) -> list[Window]:
        windows = super()._windows(area)
        if isinstance(area, Box):
            # A pole has every longitude, whichever it is kept under.
            windows += [((0.0, 0.0), south_north) for _, south_north in windows if 90.0 in map(abs, south_north)]
        return windows


def _cartesian(position: Position) -> tuple[float, float, float]:
    """Metres from the centre of the earth: to (0, 0), to (90, 0), to the north pole."""
    longitude, latitude = radians(position[0]), radians(position[1])
    sine = sin(latitude)
    normal = _EQUATOR_M / sqrt(1 - _SQUARED_ECCENTRICITY * sine * sine)
    axis = normal * cos(latitude)
    return axis * cos(longitude), axis * sin(longitude), normal * (1 - _SQUARED_ECCENTRICITY) * sine


def _longest(straight: float) -> float:
    """Metres that a geodesic has at most, of the straight line between its ends.

    The plane through both ends and the centre meets the ellipsoid in an ellipse, nowhere more curved than a circle of
    `_CURVED_M`; of arcs of this length the circle's has the shortest chord (Schur's comparison theorem).
    """
    if straight > _CURVED_M:
        return pi * _EQUATOR_M
    return 2 * _CURVED_M * asin(straight / (2 * _CURVED_M)) + _MARGIN_M


class _EarthLens:
    """No geodesic is shorter than the straight line through the earth, which is cheap and leaves most others out."""

    def __init__(self, index: EarthIndex, position: Position) -> None:
        self.distance = index.distance
        self.position = position
        self.longitude, self.latitude = position
        self.cartesian = _cartesian(position)
        self.axis = hypot(*self.cartesian[:2])

    def sift(self, spots: Spots, bound: float) -> Seen:
        most = bound + _MARGIN_M
        rows = [row for row, straight in enumerate(self._straight(spots)) if straight <= most]
        return [(metres, row) for row in rows if (metres := self._measured(spots, row)) <= bound]

    def estimate(self, spots: Spots) -> Seen:
        return [(_longest(straight), row) for row, straight in enumerate(self._straight(spots))]

    def gather(self, leaves: Sequence[Spots], bound: float, count: int) -> Found:
        most = bound + _MARGIN_M
        rows = [
            (straight, number, row)
            for number, leaf in enumerate(leaves)
            for row, straight in enumerate(self._straight(leaf))
            if straight <= most
        ]
        rows.sort()
        found: Found = []
        keys = 0
        farthest = 0.0
        for straight, number, row in rows:
            if straight > most:
                break
            leaf = leaves[number]
            metres = self._measured(leaf, row)
            found.append((metres, row, leaf))
            if keys < count:
                farthest = max(farthest, metres)
                crowd = leaf.crowds[row]
                keys += 1 if isinstance(crowd, str) else len(crowd)
                if keys >= count:
                    # As many as are wanted: whoever is nearer than the last of them is so along the straight line too.
                    most = farthest + _MARGIN_M
        return found

    def _straight(self, spots: Spots) -> list[float]:
        """How far away all spots are through the earth."""
        here = self.cartesian
        _, _, *columns = spots.columns
        return [dist(here, there) for there in zip(*columns, strict=True)]

    def _measured(self, spots: Spots, row: int) -> float:
        longitudes, latitudes = spots.columns[:2]
        return self.distance(self.position, (longitudes[row], latitudes[row]))

    def windows(self, radius: float) -> list[Window]:
        """By the straight line again, as seen along the axis of the earth; a ball around it has all longitudes."""
        radius += _MARGIN_M
        turn = 180.0 if radius >= self.axis else degrees(asin(radius / self.axis))
        longitudes = _LONGITUDES.ranges(self.longitude, turn)
        return [*product(longitudes, _LATITUDES.ranges(self.latitude, radius / _DEGREE_M))]

    def gap_x(self, low: float, high: float) -> float:
        """To the half planes of a range of meridians, straight: no place on them is nearer."""
        longitude = self.longitude
        # With its margins a range may reach a little over 180 degrees.
        if (longitude - low) % 360.0 <= high - low:
            return 0.0
        turn = min((low - longitude) % 360.0, (longitude - high) % 360.0)
        straight = self.axis if turn >= 90.0 else self.axis * sin(radians(turn))
        return max(0.0, straight - _MARGIN_M)

    def gap_y(self, low: float, high: float) -> float:
        latitude = self.latitude
        turn = low - latitude if latitude < low else latitude - high if latitude > high else 0.0
        return max(0.0, turn * _DEGREE_M - _MARGIN_M)

    def join(self, gap_x: float, gap_y: float) -> float:
        return gap_x if gap_x > gap_y else gap_y
