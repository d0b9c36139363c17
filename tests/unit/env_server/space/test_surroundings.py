"""Ranges and gaps on an axis, open and closed, against every coordinate."""

import math

from hypothesis import given
from hypothesis import strategies as st

from env_server.space.surroundings import Surroundings


def distance(one: int, other: int, closed: bool) -> int:
    return min(abs(one - other), 10 - abs(one - other)) if closed else abs(one - other)


@given(st.integers(0, 9), st.one_of(st.integers(0, 12), st.just(math.inf)), st.booleans())
def test_ranges_hold_what_is_near_and_nothing_else(value: int, radius: float, closed: bool) -> None:
    around = Surroundings((0.0, 9.0), 0.0, closed=closed, step=1.0)
    ranges = around.ranges(value, radius)
    for other in range(10):
        inside = any(low <= other <= high for low, high in ranges)
        assert inside == (distance(value, other, closed) <= radius)
    assert all(low >= 0 and high <= 9 for low, high in ranges)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.booleans())
def test_gaps_are_those_of_the_nearest(value: int, low: int, length: int, closed: bool) -> None:
    high = min(9, low + length)
    around = Surroundings((0.0, 9.0), 0.0, closed=closed, step=1.0)
    assert around.gap(value, low, high) == min(distance(value, other, closed) for other in range(low, high + 1))


@given(st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True), st.booleans())
def test_no_rounding_leaves_out_who_is_as_far_as_the_radius(one: float, other: float, closed: bool) -> None:
    around = Surroundings((0.0, 1.0), 2.0**-50, closed=closed)
    radius = min(abs(one - other), around.length - abs(one - other))
    assert any(low <= other <= high for low, high in around.ranges(one, radius))
