"""Durations as arguments of commands."""

from __future__ import annotations

from ecumene.cli.failures import UsageError
from ecumene.client import durations
from ecumene.client.durations import show_duration

HINT = "write 1h30m, 2d, 500ms, or plain nanoseconds"


def parse_duration(text: str) -> int:
    """A duration in nanoseconds, as `ecumene.client.durations` reads it.

    Raises UsageError.
    """
    try:
        return durations.parse_duration(text)
    except ValueError as error:
        raise UsageError(str(error), hint=HINT) from error


def parse_time_ahead(text: str) -> int:
    """`parse_duration` where simulated time goes on: it does not go back, nor lie before 0.

    Raises UsageError.
    """
    duration_ns = parse_duration(text)
    if duration_ns < 0:
        raise UsageError(f"{text!r} is negative: simulated time begins at 0 and never goes back")
    return duration_ns


def show_moment(time_ns: int) -> str:
    """A simulated time, both ways."""
    return f"{show_duration(time_ns)} ({time_ns:,} ns)"
