"""A circuit breaker: an endpoint that fails again and again is left alone for a while, then asked once."""

from __future__ import annotations

from enum import StrEnum

FAILURES_MAX = 5
OPEN_FIRST_S = 5.0
OPEN_MAX_S = 60.0


class BreakerState(StrEnum):
    """CLOSED lets all calls pass, OPEN none, HALF_OPEN one: the probe."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Breaker:
    """Opens after `failures_max` failures without a success between them; 0 = never.

    Open, it lets nobody pass for `open_s`; then one call, the probe: a success closes it, a failure opens it
    for twice as long as before, at most a minute. A probe that is cancelled says nothing, and the next is let pass.
    """

    __slots__ = ("_failures", "_failures_max", "_is_probing", "_open_s", "_open_until_s", "is_untroubled", "opened")

    def __init__(self, failures_max: int = FAILURES_MAX) -> None:
        self._failures_max = failures_max
        self._failures = 0
        self._open_s = 0.0
        self._open_until_s: float | None = None
        self._is_probing = False
        self.opened = 0
        """How often it has opened."""
        self.is_untroubled = True
        """It is closed, and the last call that says something about the endpoint was a success."""

    @property
    def strikes(self) -> int:
        """Failures in a row that bring it nearer to opening; 0 once it has opened, and if it never does."""
        return self._failures if self._open_until_s is None and self._failures_max else 0

    def state(self, now_s: float) -> BreakerState:
        """How it stands."""
        if self._open_until_s is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now_s < self._open_until_s else BreakerState.HALF_OPEN

    @property
    def is_closed(self) -> bool:
        """Whether all calls pass."""
        return self._open_until_s is None

    def wait_s(self, now_s: float) -> float | None:
        """0.0 if a call may pass now, else the seconds to the next probe, None while one is out."""
        if self._open_until_s is None:
            return 0.0
        if self._is_probing:
            return None
        return max(0.0, self._open_until_s - now_s)

    def enter(self) -> None:
        """A call passes, for which `wait_s` was 0.0."""
        self._is_probing = self._open_until_s is not None

    def note_success(self) -> None:
        """A call came back: the endpoint lives."""
        self._failures = 0
        self._open_until_s = None
        self._open_s = 0.0
        self._is_probing = False
        self.is_untroubled = True

    def note_failure(self, now_s: float, entered_s: float) -> None:
        """A call that came in at `entered_s` failed since the endpoint does not work."""
        self.is_untroubled = False
        self._failures += 1
        if self._failures_max == 0 or self._failures < self._failures_max:
            return
        # Calls that left before it opened and fail now say nothing new; only a probe does.
        if self._open_until_s is None or self._is_probe(entered_s):
            self._open_s = min(OPEN_MAX_S, 2 * self._open_s or OPEN_FIRST_S)
            self._open_until_s = now_s + self._open_s
            self._is_probing = False
            self.opened += 1

    def note_nothing(self, entered_s: float) -> None:
        """A call that came in at `entered_s` ended, and says nothing about the endpoint."""
        if self._is_probe(entered_s):
            self._is_probing = False

    def _is_probe(self, entered_s: float) -> bool:
        """Whether a call is the probe that is out, and not one from before the breaker opened."""
        return self._is_probing and self._open_until_s is not None and entered_s >= self._open_until_s
