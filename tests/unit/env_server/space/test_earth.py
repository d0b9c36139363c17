"""The earth, against another library's geodesics: over 180 degrees, at the poles, on borders."""

import itertools
import math
import random

import pytest
from geographiclib.geodesic import Geodesic

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.spaces import Box, Disc, Geo, Position
from env_server.space.spaces import open_space
from tests.contracts.space_index import Stand, check_space_index, holds

AROUND = {
    "anywhere": ((-180, 180), (-90, 90)),
    "the antimeridian": ((179.9, 180.1), (-0.1, 0.1)),
    "the north pole": ((-180, 180), (89.9, 90)),
    "the south pole": ((-180, 180), (-90, -89)),
    "a town": ((13.0, 13.8), (52.3, 52.7)),
    "half the earth around": ((-180, -179), (-1, 1)),
}


def measure(one: Position, other: Position) -> float:
    return Geodesic.WGS84.Inverse(one[1], one[0], other[1], other[0], Geodesic.DISTANCE)["s12"]


def inside(box: Box, position: Position) -> bool:
    """Degree by degree, with both names of a meridian and every longitude of a pole."""
    (west, south), (east, north) = box.low, box.high
    longitudes = [position[0]] if position[0] != -180 else [-180.0, 180.0]
    if not south <= position[1] <= north:
        return False
    if abs(position[1]) == 90:
        return True
    if west <= east:
        return any(west <= longitude <= east for longitude in longitudes)
    return any(longitude >= west or longitude <= east for longitude in longitudes)


def stand_of(longitudes: tuple[float, float], latitudes: tuple[float, float]) -> Stand:
    def draw(rng: random.Random) -> Position:
        longitude, latitude = rng.uniform(*longitudes), rng.uniform(*latitudes)
        if rng.random() < 0.3:
            longitude, latitude = rng.choice(longitudes), rng.choice([*latitudes, latitude])
        return math.remainder(longitude, 360.0), latitude

    return Stand(open_space, Geo(), draw, measure, inside, exact=False)


@pytest.mark.parametrize("where", AROUND)
def test_every_query_tells_what_a_look_at_all_tells(where: str) -> None:
    for seed in range(2):
        check_space_index(stand_of(*AROUND[where]), seed, entries=120)


def test_geodesics_are_those_of_another_library_and_the_same_both_ways() -> None:
    index = open_space(Geo(), Limits())
    rng = random.Random(5)
    some = [index.check((rng.uniform(-180, 180), math.degrees(math.asin(rng.uniform(-1, 1))))) for _ in range(40)]
    some += [(0.0, 90.0), (0.0, -90.0), (0.0, 0.0), (-180.0, 0.0), (179.999, 0.5), (-0.0005, -0.5)]
    for one, other in itertools.product(some, some):
        assert index.distance(one, other) == pytest.approx(measure(one, other), abs=1e-7)
        assert index.distance(one, other) == index.distance(other, one)


def test_the_nearest_is_found_over_180_degrees_and_over_the_pole() -> None:
    index = open_space(Geo(), Limits())
    index.put("fiji west", index.check((179.99, -17.0)))
    index.put("fiji east", index.check((-179.99, -17.0)))
    index.put("far", index.check((179.0, -17.0)))
    assert [key for _, key in index.nearest((-179.98, -17.0), 2)] == ["fiji east", "fiji west"]
    assert [key for _, key in index.within((180.0, -17.0), 1200.0)] == ["fiji east", "fiji west"]
    index.put("over the pole", index.check((100.0, 89.99)))
    index.put("on this side", index.check((-80.0, 89.9)))
    assert [key for _, key in index.nearest((-80.0, 89.99), 2)] == ["over the pole", "on this side"]


def test_a_pole_has_every_longitude() -> None:
    index = open_space(Geo(), Limits())
    assert index.check((77.0, 90.0)) == index.check((-3.0, 90)) == (0.0, 90.0)
    index.put("pole", index.check((77.0, 90.0)))
    index.put("near", index.check((20.0, 89.0)))
    box = Box((10.0, 80.0), (30.0, 90.0))
    assert index.in_box(box) == ["near", "pole"]
    assert holds(index, box, (0.0, 90.0))
    assert index.in_box(Box((10.0, 80.0), (30.0, 89.5))) == ["near"]
    assert not holds(index, Box((10.0, 80.0), (30.0, 89.5)), (0.0, 90.0))
    assert index.in_box(Box((-180.0, -90.0), (180.0, 90.0))) == ["near", "pole"]


def test_a_meridian_of_180_degrees_has_two_names() -> None:
    index = open_space(Geo(), Limits())
    assert index.check((180.0, 5.0)) == (-180.0, 5.0)
    index.put("line", index.check((180.0, 5.0)))
    for west, east in (
        (170.0, 180.0),
        (-180.0, -170.0),
        (180.0, -170.0),
        (170.0, -180.0),
        (180.0, 180.0),
        (180.0, -180.0),
    ):
        box = Box((west, 0.0), (east, 10.0))
        assert index.in_box(box) == ["line"]
        assert holds(index, box, (-180.0, 5.0))
    assert index.in_box(Box((-179.0, 0.0), (179.0, 10.0))) == []


def test_a_border_belongs_to_what_it_bounds() -> None:
    index = open_space(Geo(), Limits())
    here, there = index.check((2.35, 48.85)), index.check((-0.12, 51.5))
    distance = index.distance(here, there)
    index.put("there", there)
    assert index.within(here, distance) == [(distance, "there")]
    assert index.within(here, math.nextafter(distance, 0)) == []
    assert holds(index, Disc(here, distance), there)
    assert index.in_box(Box(there, there)) == ["there"]


def test_antipodes_are_half_the_earth_away() -> None:
    index = open_space(Geo(), Limits())
    index.put("other pole", (0.0, -90.0))
    index.put("other side", index.check((180.0, 0.0)))
    assert index.nearest((0.0, 90.0), 2)[1] == (pytest.approx(20_003_931.4586, abs=1e-3), "other pole")
    assert index.distance((0.0, 0.0), (-180.0, 0.0)) == pytest.approx(20_003_931.4586, abs=1e-3)
    assert len(index.within((0.0, 90.0), 20_003_932.0)) == 2


@pytest.mark.parametrize("position", [(180.00001, 0.0), (-181.0, 0.0), (0.0, 90.0000001), (0.0, -91.0)])
def test_what_lies_outside_is_refused(position: Position) -> None:
    index = open_space(Geo(), Limits())
    with pytest.raises(InvalidRequest) as caught:
        index.check(position)
    assert caught.value.reason == Reason.INVALID_POSITION
    with pytest.raises(InvalidRequest):
        index.accept_areas([Box((0.0, 10.0), (1.0, 9.0))])
    with pytest.raises(InvalidRequest):
        index.adjacent((0.0, 0.0))
