"""Simulated times as people write them in specs: 1h30m, 7d, or whole nanoseconds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from ecumene.client.durations import parse_duration, show_duration

_WRITTEN = WithJsonSchema(
    {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": r"^\s*([0-9]+(\.[0-9]+)?(d|h|ms|m|us|ns|s)\s*)+$|^[0-9]+$"},
        ]
    }
)


def parse_time(value: Any) -> int:
    """Nanoseconds, of a text such as 1h30m, or of a whole number of them. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("write a time such as 1h30m, 7d or 500ms")
    try:
        time_ns = value if isinstance(value, int) else parse_duration(value)
    except ValueError as error:
        raise ValueError(f"{error}; write 1h30m, 7d or 500ms") from error
    if not 0 <= time_ns < 2**63:
        raise ValueError("simulated time begins at 0, and ends after 292 years")
    return time_ns


Time = Annotated[
    int, BeforeValidator(parse_time), PlainSerializer(show_duration, return_type=str, when_used="json"), _WRITTEN
]
"""A time, or a duration, in whole nanoseconds of simulated time."""
Span = Annotated[Time, Field(gt=0)]
"""A duration that is not empty."""
