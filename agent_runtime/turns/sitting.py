"""A turn of a rule agent in whose place a person sits: the person's number, or after a while the rule's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ecumene.client.records import TurnStatus

from agent_runtime.model.actions import REPORT
from agent_runtime.model.errors import ActionRefusedError
from agent_runtime.turns.deciding import all_numbers
from agent_runtime.turns.ends import OK, TurnEnd
from agent_runtime.turns.part_context import PartContext
from agent_runtime.turns.presence import Decision
from agent_runtime.turns.thinking import Thinkers


@dataclass(slots=True)
class Sitting:
    """One turn. `value` and `end` are what the rule makes of it."""

    context: PartContext
    pack: Thinkers
    key: str
    value: Any
    end: TurnEnd

    @property
    def turn(self) -> int:
        """Its number."""
        return int(self.pack.turns[0])

    async def decide(self) -> tuple[TurnEnd, Any]:
        """How the turn ends, and the number to report."""
        chosen: list[Any] = []

        async def apply(decision: Decision) -> None:
            if decision.actions or decision.report is None or not all_numbers(decision.report):
                raise ActionRefusedError(REPORT, "an agent that decides by a rule reports one number, and does no more")
            chosen[:] = decision.report

        missed = await self.context.presence.ask(self.key, self.turn, self.pack.notice, apply, ActionRefusedError)
        if not missed:
            return OK, chosen[0]
        return (TurnEnd(TurnStatus.FALLBACK, missed) if self.end is OK else self.end), self.value

    def tell_end(self, end: TurnEnd) -> None:
        """Tell the person; what the world makes of the report is in the records."""
        self.context.presence.end(self.key, self.turn, end.status.value, end.reason)
