"""The earth: geodesics on the ellipsoid WGS84, measured by PROJ."""

from itertools import product
from math import asin, cos, degrees, radians, sin, sqrt

from pyproj import Geod

from env_server.model.limits import Limits
from env_server.model.spaces import Area, Box, Position
from env_server.space.checking import finite, refuse_field, refuse_position
from env_server.space.flat_index import FlatIndex, Interval
from env_server.space.spot_tree import Crowd, Leaf, Spot, SpotTree, Window
from env_server.space.surroundings import Surroundings

_ELLIPSOID = Geod(ellps="WGS84")
_measure = _ELLIPSOID.inv
_SQUARED_ECCENTRICITY = _ELLIPSOID.es
_EQUATOR_M = _ELLIPSOID.a
_DEGREE_M = radians(_EQUATOR_M * (1 - _SQUARED_ECCENTRICITY))
"""Metres along a meridian to a degree of latitude: at the equator, where they are the fewest."""
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
        super().__init__(
            SpotTree(
                (-180.0, -90.0), per_unit=per_unit, bits=_BITS, margins=(slack, slack), looks_max=limits.space_looks_max
            )
        )

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
        if isinstance(area, Box) and abs(position[1]) == 90:
            return area.low[1] <= position[1] <= area.high[1]
        return super().contains(area, position)

    def in_box(self, box: Box) -> list[str]:
        keys = super().in_box(box)
        # A pole has every longitude; it is kept under the first meridian.
        missed = [latitude for latitude in (-90.0, 90.0) if box.low[1] <= latitude <= box.high[1]]
        if missed and 0.0 not in self._intervals(box)[0]:
            for latitude in missed:
                crowd = self._tree.crowd(self._spot((0.0, latitude)))
                keys += [crowd] if isinstance(crowd, str) else crowd
            keys.sort()
        return keys


def _cartesian(position: Position) -> tuple[float, float, float]:
    """Metres from the centre of the earth: to (0, 0), to (90, 0), to the north pole."""
    longitude, latitude = radians(position[0]), radians(position[1])
    sine = sin(latitude)
    normal = _EQUATOR_M / sqrt(1 - _SQUARED_ECCENTRICITY * sine * sine)
    axis = normal * cos(latitude)
    return axis * cos(longitude), axis * sin(longitude), normal * (1 - _SQUARED_ECCENTRICITY) * sine


class _EarthLens:
    """No geodesic is shorter than the straight line through the earth, which is cheap and leaves most others out."""

    def __init__(self, index: EarthIndex, position: Position) -> None:
        self.distance = index.distance
        self.position = position
        self.longitude, self.latitude = position
        self.x, self.y, self.z = _cartesian(position)
        self.axis = sqrt(self.x * self.x + self.y * self.y)

    def sift(self, leaf: Leaf, bound: float) -> list[tuple[float, Crowd]]:
        here_x, here_y, here_z = self.x, self.y, self.z
        most = (bound + _MARGIN_M) ** 2
        found = []
        for (longitude, latitude, x, y, z), crowd in leaf.items():
            x -= here_x
            y -= here_y
            z -= here_z
            if x * x + y * y + z * z <= most:
                distance = self.distance(self.position, (longitude, latitude))
                if distance <= bound:
                    found.append((distance, crowd))
        return found

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
