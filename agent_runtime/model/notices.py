"""What wakes an agent."""

from __future__ import annotations

from dataclasses import dataclass

from ecumene.client import Event

EVERYONE = ""
"""In place of an agent's id: all agents of the group."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What an event asks of those it wakes: one report each, under one generation of a gate.

    An event asks by a document with `reports` (the path where reports go, one entry an agent, the key is
    the agent's id) and `generation`; `round` is for the records.
    """

    path: str
    generation: int
    round: int | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """All events of one revision that concern an agent, and so one turn.

    `received_s` is when the worker had them, on its own clock. Several agents share a notice.
    """

    revision: int
    events: tuple[Event, ...]
    received_s: float
    sim_time_ns: int | None
    ask: Ask | None

    @property
    def event(self) -> Event:
        """The first of the events; most turns have only this one."""
        return self.events[0]

    @property
    def observed_at_ns(self) -> int | None:
        """Wall time of the commit, ns since 1970 UTC; None if the events do not say."""
        return self.events[0].wall_time_ns or None

    @property
    def round(self) -> int | None:
        """The round of the experiment, if the events say."""
        return self.ask.round if self.ask is not None else None


def read_ask(event: Event) -> Ask | None:
    """What an event asks for; None if it asks for nothing."""
    document = event.value
    if not isinstance(document, dict):
        return None
    path, generation, number = document.get("reports"), document.get("generation"), document.get("round")
    if not isinstance(path, str) or not isinstance(generation, int) or isinstance(generation, bool):
        return None
    return Ask(path, generation, number if isinstance(number, int) else None)
