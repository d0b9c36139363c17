"""Ticks: what a timer that is due fires, and when it is due again."""

from typing import NamedTuple

from env_server.model.timelines import MissedTicks, Timer
from env_server.model.values import INT_MAX


class Tick(NamedTuple):
    """What comes of a timer that is due."""

    due_ns: int
    """When the tick that fires was due."""
    missed: int
    """Ticks that were left out before it, since the last one that fired."""
    fires: bool
    """False: it only goes on to a later tick."""
    next: Timer | None
    """As it waits on; None = that was the last."""


def plan_tick(timer: Timer, now_ns: int, late_ns: int, order: int) -> Tick:
    """Deals with a timer that is due at `now_ns`, of which a tick up to `late_ns` late counts as none that was missed.

    `order` is its rank if it waits on.
    """
    due_ns, every_ns = timer.due_ns, timer.every_ns
    if not every_ns:
        return Tick(due_ns, timer.left_out, fires=True, next=None)
    left_out = 0
    if timer.missed is MissedTicks.COALESCE:
        left_out = max((now_ns - due_ns) // every_ns, 0)
    elif timer.missed is MissedTicks.SKIP:
        left_out = max(-((due_ns - (now_ns - late_ns)) // every_ns), 0)  # rounded up: those before that time
    due_ns += left_out * every_ns
    missed = timer.left_out + left_out
    if due_ns > now_ns:
        return Tick(due_ns, missed, fires=False, next=_wait(timer, due_ns, order, timer.fired, missed))
    return Tick(due_ns, missed, fires=True, next=_wait(timer, due_ns + every_ns, order, timer.fired + 1, 0))


def _wait(timer: Timer, due_ns: int, order: int, fired: int, left_out: int) -> Timer | None:
    """The timer as it waits for a later tick; None when that lies beyond the end of time."""
    if due_ns > INT_MAX:
        return None
    # Not `replace`, which takes ten times as long: this is done for each firing.
    return Timer(timer.name, due_ns, order, timer.every_ns, timer.missed, timer.payload, fired, left_out)
