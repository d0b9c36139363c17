"""Players that name the number of their passport."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_runtime.agents.agent import Agent

if TYPE_CHECKING:
    from ecumene.client import Event

    from agent_runtime.turns.turn import Turn


class PassportPlayer(Agent):
    """It stands in their profile."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        """One turn."""
        turn.report(float(self.profile["passport"]))
