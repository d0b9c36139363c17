"""A rumour on a square, by the clock of the square: its rules and its people; rumour.yaml says how long it is told.

cd examples
ecumene run rumour.yaml

Everybody takes a step now and then, and tells the rumour to whoever stands near. So it spreads as an infection that
nobody recovers from: slowly, fast, slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ecumene import Grid, ns

from agent_runtime.agents.agent import Agent
from agent_runtime.model.draws import Draw
from env_server.behaviours import Behaviour, Context, Target, operation

if TYPE_CHECKING:
    from ecumene import Event

    from agent_runtime.turns.turn import Turn

SQUARE = "/square"
GRID = Grid(20, 20, torus=True)  # as in rumour.yaml


class Square(Behaviour):
    """A place where people stand and talk. Entries: 1 for who knows the rumour, 0 for who does not."""

    kind = "square"

    @operation(writes=lambda path, who, step: [Target(path, None)])
    async def stroll(self, ctx: Context, who: str, step: tuple[int, int]) -> int:
        """Moves somebody by a step, and tells those who are there then; returns how many were told."""
        here = ctx.entry(who)
        if here is None or here.position is None:
            ctx.refuse("nowhere", f"{who} is not on the square", who=who)
        column, row = here.position
        ctx.move(who, GRID.wrap((column + step[0], row + step[1])))
        told = 0
        near = ctx.near(who, radius=1)
        knows = here.value == 1 or any(ctx.get(other) == 1 for other in near)
        for other in (who, *near):
            if knows and ctx.get(other) == 0:
                ctx.set(other, 1)
                told += 1
        return told

    @operation(reads_only=True)
    async def count_knowing(self, ctx: Context) -> float:
        """The share of people who know the rumour."""
        entries = ctx.entries().values()
        return sum(1 for entry in entries if entry.value == 1) / max(1, len(entries))


class Stroller(Agent):
    """Takes a step every half hour to two hours."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        """Ask for the next wake, then go. The first wake is that of everybody at once, and nobody goes yet."""
        draw = Draw(self.group.seed, self.id, turn.number, 0)
        turn.wake_after(ns(hours=draw.uniform(0.5, 2.0)))
        if turn.number > 1:
            turn.invoke(SQUARE, "stroll", who=self.id, step=[draw.choice([-1, 0, 1]), draw.choice([-1, 0, 1])])
