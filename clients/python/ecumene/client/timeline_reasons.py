"""One exception for each reason of the contract that has to do with simulated time."""

from __future__ import annotations

from ecumene.client.errors import (
    AlreadyExistsError,
    NotFoundError,
    OutOfRangeError,
    ResourceExhaustedError,
    WrongStateError,
)


class ClockNotFoundError(NotFoundError):
    """No clock here or above; for what controls one: the environment has none of its own."""

    def describe(self) -> str:
        """Tells that the environment is there, and what it lacks."""
        return f"no such clock: {self.path} has none of its own" if self.path else super().describe()


class TimerNotFoundError(NotFoundError):
    """The environment has no timer of that name."""


class ParticipantNotFoundError(NotFoundError):
    """Nobody of that name takes part in the clock."""


class ClockExistsError(AlreadyExistsError):
    """The environment has a clock already; it stays as it was declared."""


class ClockPausedError(WrongStateError):
    """The environment's clock is paused: it neither advances nor skips; it steps."""


class ClockOnItsWayError(WrongStateError):
    """The clock goes somewhere, and what is asked cannot come after that: wait until it has arrived, or pause it."""


class ClockModeMismatchError(WrongStateError):
    """The clock is of a mode that is not controlled in this way."""

    @property
    def mode(self) -> str:
        """The clock's mode."""
        return self.metadata.get("mode", "")


class TimePassedError(OutOfRangeError):
    """A clock does not go back: the time asked for has passed."""

    @property
    def now_ns(self) -> int:
        """Time of the clock."""
        return self.number("now_ns")

    @property
    def end_ns(self) -> int:
        """Time of the clock when it has gone all the way that it is on; `now_ns` if it is on none."""
        return self.number("end_ns")


class TimerQuotaError(ResourceExhaustedError):
    """As many timers are set as may be."""


class ParticipantQuotaError(ResourceExhaustedError):
    """As many take part in the clock as may."""
