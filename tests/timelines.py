"""Clocks and timers of a world in this process: what tests of them declare, and what the log tells of them."""

from __future__ import annotations

from typing import Any

from env_server.model.changes import EventType
from env_server.model.timelines import ClockDeclaration, ClockMode
from tests.engine import Stand

SECOND = 1_000_000_000
MANUAL = ClockDeclaration(ClockMode.MANUAL)
REALTIME = ClockDeclaration(ClockMode.REALTIME)


def told(stand: Stand, *types: EventType) -> list[tuple[Any, ...]]:
    """Rows of these types: path, key, simulated time, document."""
    return [
        (place.path, changes.keys[row], place.sim_time_ns, getattr(changes.told_value(row), "document", None))
        for changes in stand.records()
        for row, type_ in enumerate(changes.types)
        if type_ in types
        for place in [changes.places[changes.path[row]]]
    ]


def fired(stand: Stand) -> list[tuple[str, int, int]]:
    """Firings: the timer's name, when it was due, ticks that were left out before."""
    return [(key, form["due_ns"], form["missed"]) for _, key, _, form in told(stand, EventType.TIMER_FIRED)]


def now(stand: Stand, path: str = "/town") -> int:
    """What the nearest clock shows."""
    return stand.world.timekeeping.see(path).state.now_ns
