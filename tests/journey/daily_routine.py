"""Agents of a small town: lamps by a rule, a baker in code, and a resident whom a model plays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ecumene.client import Event, ns

from agent_runtime.agents.agent import Agent, Routine, RuleAgents
from agent_runtime.llm.requests import ModelRequest
from agent_runtime.model.draws import Draw
from agent_runtime.turns.turn import Turn

DAY = ns(days=1)
DUSK, DAWN = ns(hours=19), ns(hours=6)


class Lamps(RuleAgents):
    """Lit from dusk to dawn, in a row."""

    def wake_many(self, agent_ids: Sequence[str], times_ns: Sequence[int]) -> Routine:
        lit = [float(at_ns % DAY >= DUSK or at_ns % DAY < DAWN) for at_ns in times_ns]
        next_ns = [at_ns - at_ns % DAY + (DAWN + DAY if on else DUSK) for at_ns, on in zip(times_ns, lit, strict=True)]
        return Routine(next_ns, lit, "/town/lamps", [(int(name[-1]), 0) for name in agent_ids])


class Baker(Agent):
    """Bakes at four and sells three hours later; sleeps in on the third day."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        today = (turn.sim_time_ns or 0) // DAY * DAY
        if not turn.notice.is_wake:
            turn.wake_at(today + ns(days=1, hours=4), "bake")
            return
        (wake,) = turn.wakes
        if wake.name == "bake":
            turn.wake_after(ns(hours=3), "sell", {"loaves": 40})
            turn.wake_at(today + ns(days=1, hours=4 if today < DAY else 9), "bake")
        turn.act("tell", "/town", "story", [self.id, wake.name, wake.payload], change="append")


def answer(request: ModelRequest, draw: Draw) -> dict[str, Any]:
    """What the model says: the line in which its prompt tells the time."""
    told = str(request.messages[1].content)
    return {"doing": next(line for line in told.splitlines() if line.startswith("It is"))}
