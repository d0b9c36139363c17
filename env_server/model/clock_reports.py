"""What is said of those for whom event-driven clocks wait."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from env_server.model.errors import WorldError
from env_server.model.operations import Precondition


@dataclass(frozen=True, slots=True)
class ClockReport:
    """What is said of a participant of the event-driven clock of the environment at `path`."""

    path: str
    key: str
    set_revision: int
    """In which the participant's entry was set last, as the reporter knows it."""
    busy: bool = False
    earliest_wake_ns: int | None = None
    consumed_revision: int = 0
    """Every event that it hears up to this one is dealt with, and what that led to was sent before."""
    group: str = ""
    """In whose name it is said; "" = no group's."""
    fence: Precondition | None = None
    """What must hold for it to count."""
    refusals: int | None = None
    """Of how many frames with ops that were refused for now its reporter knows; None = it does not matter."""


class ReportVoid(NamedTuple):
    """Reports of a participant under a revision count no more."""

    path: str
    key: str
    set_revision: int
    error: WorldError


class Reporter(Protocol):
    """Who reports: one stream of a client."""

    def void(self, void: ReportVoid) -> None:
        """A report of it has become void."""
