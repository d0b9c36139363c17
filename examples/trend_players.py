"""A player of one's own for the guess game; guess_trend.yaml lets it play against ready ones.

cd examples
ecumene run guess_trend.yaml
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_runtime.agents.agent import Agent, GroupInfo

if TYPE_CHECKING:
    from ecumene import Event

    from agent_runtime.turns.turn import Turn


class TrendPlayer(Agent):
    """Expects the winning number to fall as it fell last time. Parameter `first`: what it says in the first round."""

    @classmethod
    def check_group(cls, group: GroupInfo) -> None:
        """Refuses a launch before anybody is woken."""
        if not 0 <= group.parameters.get("first", 50) <= 100:
            raise ValueError("first is a number from 0 to 100")

    async def on_event(self, event: Event, turn: Turn) -> None:
        """One turn: what woke it tells the last winning number, and its memory the one before that."""
        told = event.value["last_winner"]
        before = self.memory.find_fact("told")
        if told is None:
            number = self.group.parameters.get("first", 50)
        else:
            number = told if before is None else told * min(1.0, told / max(before, 1e-9))
        turn.report(number)
        self.memory.keep_fact("told", told)  # kept with the turn, and there after a restart
        self.memory.remember(f"round {event.value['round']}: I said {number:.1f}")
