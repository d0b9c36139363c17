"""Numbers as people write them in specs: 0.5, or "2/3"."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_WRITTEN = WithJsonSchema(
    {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^\s*[-+]?[\d.]+([eE][-+]?\d+)?\s*(/\s*\d+\s*)?$"}]}
)


def parse_fraction(value: Any) -> Fraction:
    """A number or the text of one, exactly as written: 0.1 is a tenth. Raises ValueError."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError('write a number, or a fraction such as "2/3"')
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be a finite number")
    try:
        return Fraction(str(value).strip().replace(" ", ""))
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f'{value!r} is no number and no fraction such as "2/3"') from error


def parse_real(value: Any) -> float:
    """Like `parse_fraction`, as the nearest double. Raises ValueError."""
    try:
        return float(parse_fraction(value))
    except OverflowError as error:
        raise ValueError("too large") from error


RealNumber = Annotated[float, BeforeValidator(parse_real), _WRITTEN]

# Kept exact, so that shares sum to one or do not; text in JSON.
ExactShare = Annotated[Fraction, BeforeValidator(parse_fraction), PlainSerializer(str, return_type=str), _WRITTEN]
