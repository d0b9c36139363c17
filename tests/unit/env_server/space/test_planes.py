"""The plane, bounded and as a torus."""

import math
import random

import pytest

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.spaces import Box, NodeSet, Plane, Position
from env_server.space.spaces import open_space
from tests.contracts.space_index import Stand, check_space_index, holds

PLANES = [
    Plane(0, 0, 1, 1),
    Plane(-3, 7, 4, 7.5),
    Plane(-1e-30, 0, 1e-30, 1e-12),
    Plane(1e15, 0, 1e15 + 8, 3),
    Plane(-1e150, -1e150, 1e150, 1e150),
    Plane(0, 0, 1000, 1e-3),
]


def stand_of(plane: Plane) -> Stand:
    """Draws positions of which many share a coordinate, lie on a border or next to one."""

    def draw(rng: random.Random) -> Position:
        return along(plane.x_min, plane.x_max, rng), along(plane.y_min, plane.y_max, rng)

    def along(low: float, high: float, rng: random.Random) -> float:
        chance = rng.random()
        if chance < 0.2:
            value = low + (high - low) * rng.randrange(5) / 4
        elif chance < 0.3:
            value = math.nextafter(high, low)
        elif chance < 0.5:
            value = low + (high - low) * (0.3 + rng.random() * 1e-6)
        else:
            value = rng.uniform(low, high)
        return low if plane.torus and value >= high else min(max(value, low), high)

    def measure(one: Position, other: Position) -> float:
        if not plane.torus:
            return math.hypot(one[0] - other[0], one[1] - other[1])
        width, height = plane.x_max - plane.x_min, plane.y_max - plane.y_min
        x, y = abs(one[0] - other[0]), abs(one[1] - other[1])
        return min(math.hypot(a, b) for a in (x, width - x) for b in (y, height - y))

    def inside(box: Box, position: Position) -> bool:
        return all(
            low <= value <= high or (plane.torus and low > high and (value >= low or value <= high))
            for low, value, high in zip(box.low, position, box.high, strict=True)
        )

    return Stand(open_space, plane, draw, measure, inside)


@pytest.mark.parametrize("torus", [False, True])
@pytest.mark.parametrize("plane", PLANES, ids=str)
def test_every_query_tells_what_a_look_at_all_tells(plane: Plane, torus: bool, seed: int) -> None:
    plane = Plane(plane.x_min, plane.y_min, plane.x_max, plane.y_max, torus)
    check_space_index(stand_of(plane), seed)
    check_space_index(stand_of(plane), seed=1)


@pytest.mark.parametrize("torus", [False, True])
def test_crowded_parts_are_told_as_well_as_deserted_ones(torus: bool) -> None:
    check_space_index(stand_of(Plane(0, 0, 10, 10, torus)), 11, entries=300)


def test_a_radius_beyond_the_torus_tells_nobody_twice() -> None:
    index = open_space(Plane(0, 0, 2, 2, True), Limits())
    index.put("a", (0.0, 0.0))
    index.put("b", (1.0, 1.0))
    for radius in (1.5, 2.0, 3.0, 100.0, math.inf):
        assert index.within((0.0, 0.0), radius) == [(0.0, "a"), (math.hypot(1, 1), "b")]


def test_a_box_on_a_torus_leads_across_the_seam() -> None:
    index = open_space(Plane(0, 0, 10, 10, True), Limits())
    for key, x in (("low", 0.0), ("one", 1.0), ("mid", 5.0), ("nine", 9.0)):
        index.put(key, (x, 5.0))
    assert index.in_box(Box((9.0, 0.0), (1.0, 10.0))) == ["low", "nine", "one"]
    # The upper bound is the lower one again.
    assert index.in_box(Box((9.0, 0.0), (10.0, 10.0))) == ["low", "nine"]
    assert holds(index, Box((9.0, 0.0), (10.0, 10.0)), (0.0, 5.0))


@pytest.mark.parametrize(
    "plane",
    [
        Plane(0, 0, 0, 1),
        Plane(1, 0, 0, 1),
        Plane(0, 0, math.nan, 1),
        Plane(0, 0, math.inf, 1),
        Plane(-1.7e308, 0, 1.7e308, 1),
        Plane(0, 0, 5e-324, 5e-324),
    ],
    ids=str,
)
def test_bounds_that_are_none_are_refused(plane: Plane) -> None:
    with pytest.raises(InvalidRequest) as caught:
        open_space(plane, Limits())
    assert caught.value.reason == Reason.INVALID_FIELD


def test_what_lies_outside_is_refused() -> None:
    index = open_space(Plane(0, 0, 1, 1), Limits())
    assert index.check((1, 1)) == (1.0, 1.0)
    for position in ((1.0000001, 0.0), (0.0, -1e-300)):
        with pytest.raises(InvalidRequest) as caught:
            index.check(position)
        assert caught.value.reason == Reason.INVALID_POSITION
    for box in (Box((0.5, 0.0), (0.4, 1.0)), Box((0.0, 0.0), (2.0, 1.0)), Box((0.0,), (1.0,))):
        for ask in (lambda box: index.accept_areas([box]), index.in_box):
            with pytest.raises(InvalidRequest):
                ask(box)
    with pytest.raises(InvalidRequest):
        index.accept_areas([NodeSet(frozenset({1}))])
    with pytest.raises(InvalidRequest):
        index.adjacent((0.0, 0.0))
    torus = open_space(Plane(0, 0, 1, 1, True), Limits())
    with pytest.raises(InvalidRequest):
        torus.check((1.0, 0.0))
