"""Clocks and timers as values: how they are declared, and how they stand. Times are whole nanoseconds, simulated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from ecumene.client.errors import ErrorDetails, Executed
from ecumene.client.reasons import InvalidFieldError

if TYPE_CHECKING:
    from ecumene.client.model import Json

ClockMode = Literal["manual", "realtime", "event_driven"]
"""What makes a clock go: somebody who advances it, the server's monotonic clock, or that everybody is idle."""

MissedTicks = Literal["coalesce", "skip", "catch_up"]
"""What a repeating timer does with ticks that a skip has passed: one for all of them, none, or every one."""

_NS = {"seconds": 10**9, "minutes": 60 * 10**9, "hours": 3600 * 10**9, "days": 86400 * 10**9}
_NS_MAX = 2**63 - 1


def ns(seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> int:
    """A duration in whole nanoseconds: exact for ints, to the nearest one for floats. A day has 24 hours.

    Raises:
        InvalidFieldError: it is no number, or does not fit 64 bits (292 years).
    """
    given = {"seconds": seconds, "minutes": minutes, "hours": hours, "days": days}
    try:
        total = round(sum(Fraction(amount) * _NS[unit] for unit, amount in given.items()))
    except (TypeError, ValueError, OverflowError) as error:
        raise refuse_field(f"ns: {error}") from error
    if abs(total) > _NS_MAX:
        raise refuse_field("ns: it does not fit 64 bits, which are 292 years")
    return total


@dataclass(frozen=True, slots=True)
class Clock:
    """Declares the clock of an environment; what lies below, down to the next clock, lives by it too.

    Begin with `Clock.manual`, `Clock.realtime` or `Clock.event_driven`.
    """

    mode: ClockMode
    start_ns: int = 0
    """Time at which it begins."""
    paused: bool = False
    """Begins paused."""
    lookahead_ns: int | None = None
    """It does not pass the nearest clock above by more than this; None = it does not heed it."""
    rate: float = 1.0
    """Realtime: simulated time a real time."""
    participants_path: str = ""
    """Event-driven: the environment whose entries are its participants; "" = the clock's own."""

    @classmethod
    def manual(cls, start_ns: int = 0, *, paused: bool = False, lookahead_ns: int | None = None) -> Clock:
        """One that stands until it is advanced."""
        return cls("manual", start_ns, paused, lookahead_ns)

    @classmethod
    def realtime(
        cls, rate: float = 1.0, *, start_ns: int = 0, paused: bool = False, lookahead_ns: int | None = None
    ) -> Clock:
        """One that goes with the server's monotonic clock, times `rate`; it stands while nobody serves the world."""
        return cls("realtime", start_ns, paused, lookahead_ns, rate)

    @classmethod
    def event_driven(
        cls,
        start_ns: int = 0,
        *,
        participants_path: str = "",
        paused: bool = False,
        lookahead_ns: int | None = None,
    ) -> Clock:
        """One that jumps to what is due next as soon as every participant is idle; see EnvironmentClock.participate.

        `participants_path`: an environment that exists; all its entries are participants. "" = the clock's own.
        """
        return cls("event_driven", start_ns, paused, lookahead_ns, participants_path=participants_path)


@dataclass(frozen=True, slots=True)
class ClockState:
    """A clock as it stands."""

    path: str
    """The environment that owns it: the one asked, or the nearest one above."""
    mode: ClockMode
    now_ns: int
    rate: float
    paused: bool
    target_ns: int | None
    """It is on its way to there."""
    lookahead_ns: int | None
    timers: int
    """Timers on it."""
    next_due_ns: int | None
    """When the first of them is due."""
    held_by: tuple[str, ...]
    """Why it does not go on, for people; () = nothing holds it."""
    participants_path: str = ""
    """Event-driven: where its participants are."""
    stepping: bool = False
    """Event-driven: it makes one jump although it is paused, as soon as everybody is idle."""


@dataclass(frozen=True, slots=True)
class TimerInfo:
    """A timer as its server lists it."""

    name: str
    due_ns: int
    every_ns: int
    """Then again and again after this long; 0 = only once."""
    missed: MissedTicks
    payload: Json
    """Told with each firing."""
    fired: int
    """How often it has fired."""


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Around what a message may not hold: that is an InvalidFieldError."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise refuse_field(f"{what}: {error}") from error


def refuse_field(why: str) -> InvalidFieldError:
    """The error for an argument that is refused before it is sent."""
    return InvalidFieldError(ErrorDetails(message=why, reason="INVALID_FIELD", executed=Executed.NO))
