"""A market in which order decides, and those who trade in it."""

from __future__ import annotations

from typing import ClassVar

from ecumene.client import Event

from agent_runtime.agents.agent import Agent
from agent_runtime.model.draws import Draw
from agent_runtime.model.intents import Intents
from agent_runtime.turns.turn import Turn
from env_server.behaviours.market import Market
from env_server.behaviours.ordered_intents import OrderedIntents


class OrderedMarket(OrderedIntents, Market):
    """A market whose orders are placed by trader and number, not as they come."""

    kind: ClassVar[str] = "ordered_market"
    intents: ClassVar[dict[str, str]] = {"place": "trader", "cancel": "trader"}


class Trader(Agent):
    """Places three orders a round, near the same price as everybody else."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        draw = Draw(self.group.seed, self.id, turn.number, 0)
        wanted = Intents()
        for _ in range(3):
            side = draw.choice(["buy", "sell"])
            wanted.add("place", side=side, good="oil", price=9 + draw.randrange(3), quantity=1 + draw.randrange(2))
        turn.report(wanted.value)
