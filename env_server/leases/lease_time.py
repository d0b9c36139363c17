"""The time that leases run on: the monotonic clock without the stalls of the server.

While the server is stopped, or its loop is busy for long, nobody can be heard. That time counts for no lease: a tick
that is late by more than a bound stands for a stall, and lease time goes on where it stood. Whoever asks for the time
before the late tick has come finds the stall as well.

    monotonic   0.0   0.25   0.5 ........ 30.5   30.75
    ticks        *     *      *   (stopped)  *     *
    lease time  0.0   0.25   0.5            0.75   1.0
"""

from collections.abc import Callable

from env_server.model.limits import Limits
from env_server.model.ports import Clock, Handle


class LeaseTime:
    """Ticks while it is wanted; `ticked` is called at each tick."""

    def __init__(self, clock: Clock, limits: Limits, ticked: Callable[[], None]) -> None:
        self._clock = clock
        self._tick_ns = limits.lease_tick_ms * 1_000_000
        self._late_ns_max = limits.lease_late_ms_max * 1_000_000
        self._ticked = ticked
        self._timer: Handle | None = None
        #: When the next tick is due, on the monotonic clock.
        self._due_ns = 0
        #: All that was taken out of the monotonic clock.
        self.stalled_ns = 0

    def now_ns(self) -> int:
        """Never goes back; stands still during stalls while it ticks."""
        now_ns = self._clock.monotonic_ns()
        if self._timer is not None and now_ns - self._due_ns > self._late_ns_max:
            self.stalled_ns += now_ns - self._due_ns
            self._due_ns = now_ns
        return now_ns - self.stalled_ns

    def begin(self) -> None:
        """Ticks from now on."""
        if self._timer is None:
            self._arm()

    def end(self) -> None:
        """Ticks no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._due_ns = self._clock.monotonic_ns() + self._tick_ns
        self._timer = self._clock.call_later(self._tick_ns / 1e9, self._tick)

    def _tick(self) -> None:
        self.now_ns()
        self._arm()
        self._ticked()
