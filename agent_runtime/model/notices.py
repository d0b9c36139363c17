"""What wakes an agent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ecumene.client import Event

from agent_runtime.model.wakes import Wakes

EVERYONE = ""
"""In place of an agent's id: all agents of the group."""
GENERATION_MAX = 2**63 - 1
ROUND_MAX = 2**31 - 1
"""What the world keeps of a gate, and the records of a round."""


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

    `received_s` is when the worker had them, on its own clock. Several agents share a notice. Where it is time for
    many that were to be woken at different times, `sim_time_ns` is None, and the times are told beside it.
    """

    revision: int
    events: tuple[Event, ...]
    received_s: float
    sim_time_ns: int | None
    ask: Ask | None
    ask_problem: str = ""
    """Why an event that means to ask is not taken to; "" if none does."""
    wakes: Wakes = ()
    """The wakes that the agent had asked for, if it is its time; all of one time."""
    is_wake: bool = False
    """Whether those whom it concerns are woken because it is their time."""

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


def find_ask(events: Iterable[Event]) -> tuple[Ask | None, str]:
    """What the first of some events that asks for something asks for; else why one that means to does not."""
    problem = ""
    for event in events:
        try:
            ask = read_ask(event)
        except ValueError as error:
            problem = problem or str(error)
            continue
        if ask is not None:
            return ask, ""
    return None, problem


def read_ask(event: Event) -> Ask | None:
    """What an event asks for; None if it asks for nothing.

    Raises ValueError if what it asks for can be neither done nor recorded: whoever may write events may write that.
    """
    document = event.value
    if not isinstance(document, dict):
        return None
    path, generation, number = document.get("reports"), document.get("generation"), document.get("round")
    if not isinstance(path, str) or not isinstance(generation, int) or isinstance(generation, bool):
        return None
    if not isinstance(number, int) or isinstance(number, bool):
        number = None
    if not 0 <= generation <= GENERATION_MAX:
        raise ValueError("no gate has the generation that the event names")
    if number is not None and not -ROUND_MAX <= number <= ROUND_MAX:
        raise ValueError("no round has the number that the event names")
    if not path.isascii() and path.encode("utf-8", "replace").decode() != path:
        raise ValueError("the path for reports is no text")
    return Ask(path, generation, number)
