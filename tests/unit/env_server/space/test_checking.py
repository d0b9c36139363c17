"""What is no number, no cell, no distance."""

import math

import pytest

from env_server.model.errors import InvalidRequest, Reason
from env_server.space.checking import check_count, check_radius, check_whole, finite


def test_numbers_become_doubles_with_one_zero() -> None:
    assert finite((1, -0.0), 2) == (1.0, 0.0)
    assert math.copysign(1.0, finite((-0.0,), 1)[0]) == 1.0
    assert type(finite((3,), 1)[0]) is float


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, True, "1", None, 10**400, b"1"])
def test_what_is_no_finite_number_is_no_coordinate(value: float) -> None:
    with pytest.raises(InvalidRequest) as caught:
        finite((0.0, value), 2)
    assert caught.value.reason == Reason.INVALID_POSITION


@pytest.mark.parametrize("number", [-1.0, 0.5, 5.0, 4.5])
def test_only_whole_numbers_in_their_range_are_cells(number: float) -> None:
    check_whole(4.0, 5, "row")
    with pytest.raises(InvalidRequest) as caught:
        check_whole(number, 5, "row")
    assert "from 0 to 4" in caught.value.message


@pytest.mark.parametrize("radius", [-1, -5e-324, math.nan, -math.inf, True, "1"])
def test_what_is_no_distance_is_refused_with_its_field(radius: float) -> None:
    for good in (0, 0.0, 1.5, math.inf):
        check_radius(good)
    with pytest.raises(InvalidRequest) as caught:
        check_radius(radius, "proximity.distance")
    assert caught.value.violations[0][0] == "proximity.distance"


@pytest.mark.parametrize("count", [0, -1, True, 1.0])
def test_a_number_of_entries_is_at_least_one(count: int) -> None:
    check_count(1)
    with pytest.raises(InvalidRequest):
        check_count(count)
