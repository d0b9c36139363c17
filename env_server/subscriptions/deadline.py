"""Deadlines of acknowledgements: they run while something is outstanding, on the engine's clock."""

from collections.abc import Callable
from typing import Final

from env_server.model.ports import Clock, Handle

STALL_NS: Final = 1_000_000_000
"""A deadline that is noticed this much too late tells of a process that stood still, not of its consumers."""


class AckDeadline:
    """One consumer's. One alarm at a time, however often the deadline is given anew."""

    __slots__ = ("_alarm", "_clock", "_is_needed", "_passed", "_timeout_ns", "due_ns")

    def __init__(
        self, clock: Clock, timeout_ms: int, is_needed: Callable[[], bool], passed: Callable[[], None]
    ) -> None:
        """`is_needed` tells whether anything is outstanding; `passed` is called when the deadline has, if so."""
        self._clock = clock
        self._timeout_ns = timeout_ms * 1_000_000
        self._is_needed = is_needed
        self._passed = passed
        self._alarm: Handle | None = None
        self.due_ns = 0

    def renew(self) -> None:
        """Gives the whole time again."""
        self.due_ns = self._clock.monotonic_ns() + self._timeout_ns
        if self._alarm is None:
            self._set(self._timeout_ns)

    def stop(self) -> None:
        """Ends it; nothing is called any more."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set(self, delay_ns: int) -> None:
        self._alarm = self._clock.call_later(delay_ns / 1e9, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if not self._is_needed():
            return
        left_ns = self.due_ns - self._clock.monotonic_ns()
        if left_ns > 0:
            self._set(left_ns)
        elif left_ns < -STALL_NS:
            self.renew()
        else:
            self._passed()
