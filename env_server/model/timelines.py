"""Clocks and timers of environments: simulated time. All times are integers of nanoseconds.

Not to be taken for `ports.Clock`, the machine's own: that measures deadlines and leases, and drives realtime clocks.
"""

from dataclasses import dataclass
from enum import IntEnum

from env_server.model.values import Json


class ClockMode(IntEnum):
    """Who moves a clock; the numbers are those of the contract."""

    MANUAL = 1
    """Whoever controls it."""
    REALTIME = 2
    """The machine's monotonic time, times a rate."""
    EVENT_DRIVEN = 3
    """It jumps to what is next as soon as all its participants have nothing to do before."""


@dataclass(frozen=True, slots=True)
class ClockDeclaration:
    """What an environment declares of its clock; fixed once it is declared."""

    mode: ClockMode
    start_ns: int = 0
    rate: float = 1.0
    """Realtime clocks: simulated nanoseconds a nanosecond, at first."""
    paused: bool = False
    """At first."""
    lookahead_ns: int | None = None
    """How far it may be ahead of the nearest clock above; None = as far as it likes."""
    participants_path: str = ""
    """Event-driven clocks: the environment whose entries it waits for; "" = its own."""


@dataclass(frozen=True, slots=True)
class ClockState:
    """Where a clock stands. Kept as a fact, so that it outlives the server."""

    now_ns: int
    rate: float = 1.0
    paused: bool = False
    target_ns: int | None = None
    """On its way there: it fires what is due until then, and stands there afterwards. Paused, it is on a step."""
    skipping: bool = False
    """It goes there in one jump, and fires afterwards what that has passed."""
    stepping: bool = False
    """Event-driven clocks: it makes one jump, although it is paused."""


class MissedTicks(IntEnum):
    """What a repeating timer does of ticks that a skip has passed; the numbers are those of the contract."""

    COALESCE = 1
    """One tick for all of them, which says how many they were."""
    SKIP = 2
    """None; it goes on with the first tick that is not passed."""
    CATCH_UP = 3
    """Each of them, at its own time."""


@dataclass(frozen=True, slots=True)
class Timer:
    """A timer that waits. Those of one clock fire in the order of (due_ns, order)."""

    name: str
    due_ns: int
    order: int
    """Grows from each setting in the world to the next, and with each firing: of equal times the first set is first."""
    every_ns: int = 0
    """0 = it fires once."""
    missed: MissedTicks = MissedTicks.COALESCE
    payload: Json | None = None
    """Told with each firing."""
    fired: int = 0
    """How often it has fired."""
    left_out: int = 0
    """Ticks that were passed over since it fired last."""
