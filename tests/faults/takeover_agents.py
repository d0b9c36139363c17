"""Agents whose effects show whether each event was answered once, by one owner, with the memory that it had before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ecumene.client import Event

from agent_runtime.agents.agent import Agent, RuleAgents
from agent_runtime.agents.ready import NumberAnswer
from agent_runtime.llm import Message
from agent_runtime.llm.requests import ModelRequest
from agent_runtime.model.draws import Draw
from agent_runtime.turns.turn import Turn


class Echo(RuleAgents):
    """Reports the number of the round that woke it."""

    def decide_many(self, agent_ids: Sequence[str], event: Event) -> Sequence[float]:
        document: Any = event.value
        return [float(document["round"])] * len(agent_ids)


class Diarist(Agent):
    """Counts its turns in /counts and in its memory; reports what it remembers, with its model's number behind it."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        document: Any = event.value
        answer = await turn.llm.ask([Message("user", f"round {document['round']}")], answer_type=NumberAnswer)
        assert isinstance(answer.value, NumberAnswer)
        turns = int(self.memory.recall()[-1]) + 1 if len(self.memory) else 1
        self.memory.remember(str(turns))
        turn.act("count", "/counts", self.id, 1, change="increment")
        turn.report(turns + answer.value.number / 1000)


def answer_number(request: ModelRequest, draw: Draw) -> dict[str, float]:
    """A number of the agent, its turn and its call alone."""
    return {"number": float(draw.randrange(100))}
