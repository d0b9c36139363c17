"""Bounds and times of workflows, with units and bounds in their names."""

from __future__ import annotations

from dataclasses import dataclass

from ecumene.workflows.errors import WorkflowError

MIB = 1024 * 1024

VALUE_BYTES_MAX = 1_000_000
"""Arguments of one call, or one result, in encoded form: an entry of the world takes 1 MiB."""
VALUE_DEPTH_MAX = 128
"""Lists and dicts within each other, in encoded form; a tuple is two there, a dataclass or another dict is three."""
INLINE_BYTES_MAX = 16_384
"""A longer result is not told with the news that the call has ended; who needs it fetches it."""

RETRY_MAX = 10_000
"""Times that a call is run again, and that an actor is made again."""
TIMEOUT_S_MAX = 1e9


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Bounds and times of a flow."""

    results_max: int = 100_000
    """Calls under way and results referred to; one more call raises FlowFullError."""
    results_bytes_max: int = 256 * MIB
    """Bytes of all results referred to. Beyond it the oldest that nothing waits for expire: ResultExpiredError."""
    lease_ttl_s: float = 15.0
    """A script that is gone so long has ended: its actors and results go."""
    host_wait_s: float = 10.0
    """How long to wait for a host when there is none."""
    close_timeout_s: float = 60.0
    """Closing a flow waits so long for calls under way."""

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True, slots=True)
class StageLimits:
    """Bounds of what runs actors."""

    actors_max: int = 100_000
    calls_waiting_max: int = 200_000
    """Calls taken and not finished; one more is refused with CallRefusedError."""
    calls_bytes_max: int = 512 * MIB
    """Bytes of their messages and of results fetched for them."""
    blocking_running_max: int = 64
    """Methods that are plain functions and compute at a time; those that wait for a placeholder do not count."""
    blocking_waiting_max: int = 1_000
    """Plain functions that wait for placeholders at a time; one more gets WaitLimitError."""
    circle_check_s: float = 1.0
    """A method that waits so long is checked for waiting in a circle."""

    def __post_init__(self) -> None:
        _check(self)


def check_options(retry: int, timeout_s: float | None) -> None:
    """Accepts what calls may be sent with.

    Raises:
        ValueError: `retry` is above RETRY_MAX, `timeout_s` no time, or either below 0.
    """
    if type(retry) is not int or not 0 <= retry <= RETRY_MAX:
        raise ValueError(f"retry is a number from 0 to {RETRY_MAX}, not {retry!r}")
    if timeout_s is not None and not is_time(timeout_s):
        raise ValueError(f"timeout_s is a number of seconds from 0 to {TIMEOUT_S_MAX:,.0f}, not {timeout_s!r}")


def is_time(value: object) -> bool:
    """Whether it is a number of seconds."""
    return isinstance(value, int | float) and 0 <= value <= TIMEOUT_S_MAX


def _check(limits: FlowLimits | StageLimits) -> None:
    for name in limits.__slots__:
        if not getattr(limits, name) > 0:
            raise WorkflowError(f"{name} must be above 0")
