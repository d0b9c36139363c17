"""Agents who are woken at times: what they leave shows when they were, and that each wake had its effect once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ecumene.client import Event

from agent_runtime.agents.agent import Agent, Routine, RuleAgents
from agent_runtime.turns.turn import Turn

HOUR_NS = 3_600 * 10**9
DAY_NS = 24 * HOUR_NS
THINKING_S = 0.03
WAKES, LOG = "/town/wakes", "/town/log"


class Resident(Agent):
    """Wakes at seven, at noon and, with something to do, at seven in the evening; logs each wake, and counts them."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        now_ns = turn.sim_time_ns or 0
        if not turn.notice.is_wake:
            turn.wake_at(now_ns + HOUR_NS, "bell")
            return
        await asyncio.sleep(self.group.parameters.get("thinking_s", THINKING_S))
        day, hour = divmod(now_ns, DAY_NS)
        name = turn.wakes[0].name
        if name != "bell":
            turn.wake_after(DAY_NS, name, turn.wakes[0].payload)
        if not len(self.memory):
            turn.wake_at(day * DAY_NS + 12 * HOUR_NS, "noon")
            turn.wake_at(day * DAY_NS + 19 * HOUR_NS, "evening", {"do": "dance"})
        turns = int(self.memory.recall()[-1]) + 1 if len(self.memory) else 1
        self.memory.remember(str(turns))
        turn.act("log", LOG, self.id, [day, hour // HOUR_NS, name, turn.wakes[0].payload], change="append")
        turn.act("count", WAKES, self.id, 1, change="increment")


class Cohort(RuleAgents):
    """Wakes each hour, from a first minute of its own; keeps how many hours it has seen."""

    def first_wakes(self, agent_ids: Sequence[str], first_ns: int) -> list[int]:
        return [first_ns + minute_of(name) for name in agent_ids]

    def wake_many(self, agent_ids: Sequence[str], times_ns: Sequence[int]) -> Routine:
        seen = [1.0 + (at_ns - minute_of(name)) // HOUR_NS for name, at_ns in zip(agent_ids, times_ns, strict=True)]
        return Routine([at_ns + HOUR_NS for at_ns in times_ns], seen, WAKES)


def minute_of(agent: str) -> int:
    """The minute of an hour at which an agent wakes, ns."""
    return int(agent.split("-")[1]) % 3 * 60 * 10**9
