"""What a part that is hosted needs of its turns, whichever kind of agents it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ecumene.client import Event

from agent_runtime.model.notices import Notice
from agent_runtime.turns.interviews import InterviewQuestion
from agent_runtime.turns.mailboxes import Mailboxes
from agent_runtime.turns.statistics import TurnsStatistics


class PartTurns(Protocol):
    """The turns of one part: of objects (SingleTurns) or in columns (ColumnTurns)."""

    mailboxes: Mailboxes

    @property
    def is_caught_up(self) -> bool:
        """Whether no turn that was taken before is left to be recorded, of the notices that were delivered."""
        ...

    async def deliver(self, notice: Notice, whom: str) -> None:
        """Take a notice for everyone or for one agent."""

    async def wake(self, event: Event, received_s: float) -> None:
        """Take those who are to be woken by the part's timer."""

    async def run(self) -> None:
        """Take turns until cancelled."""

    async def stop(self) -> None:
        """End as cancelled what has not been decided; what commits goes on."""

    def statistics(self) -> TurnsStatistics:
        """How full the part is."""
        ...

    async def interview(self, agent_id: str, question: InterviewQuestion) -> dict[str, Any]:
        """Ask an agent, in a copy of its state."""
        ...

    async def tell(self, agent_id: str, text: str) -> None:
        """Let an agent remember a text."""

    def find_profile(self, agent_id: str) -> Mapping[str, Any] | None:
        """Attributes of an agent; None if it does not live here."""
        ...
