"""Agents whose numbers follow from who they are, what they remember and chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_runtime.agents.agent import Agent
from agent_runtime.model.draws import Draw

if TYPE_CHECKING:
    from ecumene.client import Event

    from agent_runtime.turns.turn import Turn


class Saver(Agent):
    """The older, the smaller; whoever was told something names less, and every round something less."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        """One number a round; what was said before is remembered."""
        told = sum("Mut" in text for text in self.memory.recall())
        chance: Any = Draw(self.group.seed, self.id, turn.number)
        number = 100 - self.profile["age"] / 2 - 10 * told - len(self.memory) - 20 * chance.random()
        turn.report(max(0.0, number))
        self.memory.remember(f"{self.profile['job']}: {number:.3f}")
