"""What every shape refuses: numbers that are none, and positions of another space."""

from collections.abc import Sequence
from math import isfinite

from env_server.model.errors import InvalidRequest, Reason


def refuse_position(description: str) -> InvalidRequest:
    """The error for a position that the space does not have."""
    return InvalidRequest(Reason.INVALID_POSITION, "position", description)


def refuse_field(field: str, description: str) -> InvalidRequest:
    """The error for a shape or an area that is none."""
    return InvalidRequest(Reason.INVALID_FIELD, field, description)


def finite(values: Sequence[float], dimensions: int) -> tuple[float, ...]:
    """A position's numbers as doubles, 0.0 for -0.0.

    Raises:
        InvalidRequest: INVALID_POSITION: no numbers, not finite, more or fewer than `dimensions`.
    """
    if len(values) != dimensions:
        raise refuse_position(f"{len(values)} coordinates, and the space has {dimensions}")
    numbers = []
    for value in values:
        # A bool is an int to Python, and no coordinate to anybody.
        if type(value) is not float and type(value) is not int:
            raise refuse_position(f"{value!r:.40} is no number")
        try:
            number = float(value) + 0.0
        except OverflowError:
            raise refuse_position("a coordinate is too large") from None
        if not isfinite(number):
            raise refuse_position(f"{number} is not finite")
        numbers.append(number)
    return tuple(numbers)


def check_whole(number: float, end: int, what: str) -> None:
    """Accepts a whole number from 0 to `end` - 1.

    Raises:
        InvalidRequest: INVALID_POSITION.
    """
    if not number.is_integer() or not 0 <= number < end:
        raise refuse_position(f"{what} {number:.17g} is no whole number from 0 to {end - 1}")


def check_radius(radius: float, field: str = "radius") -> None:
    """Accepts a distance: not negative; may be infinite.

    Raises:
        InvalidRequest: INVALID_FIELD.
    """
    if type(radius) not in (int, float) or not radius >= 0:
        raise refuse_field(field, f"{radius} is no distance")


def check_count(count: int) -> None:
    """Accepts a number of entries: at least 1.

    Raises:
        InvalidRequest: INVALID_FIELD.
    """
    if type(count) is not int or count < 1:
        raise refuse_field("count", f"{count} is no number from 1")
