"""A public goods game of one's own: its rules and its players; public_goods.yaml says who plays how often.

cd examples
ecumene run public_goods.yaml

Each round everybody has 20 and gives some of it; what is given is multiplied and shared by all. Together it pays to
give, for each alone it does not. Those who give as the others gave, but a little less, make giving decline over the
rounds (Ledyard 1995).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_runtime.agents.agent import Agent
from agent_runtime.model.draws import Draw
from env_server.behaviours import Context, RoundGame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ecumene import Event

    from agent_runtime.turns.turn import Turn

ENDOWMENT = 20


class PublicGoods(RoundGame):
    """A public goods game. Config: factor, by which gifts are multiplied. Entries: the account of each player."""

    kind = "public_goods"

    async def settle(self, ctx: Context, number: int, reports: Mapping[str, Any]) -> Mapping[str, Any]:
        """Shares out what was given; the mean gift, and who gave nothing, are told."""
        players = max(1, len(reports))
        share = ctx.config()["factor"] * sum(reports.values()) / players
        for player, gift in reports.items():
            ctx.set(player, (ctx.get(player) or 0) + ENDOWMENT - gift + share)
        free = sum(1 for gift in reports.values() if gift == 0)
        return {"mean": sum(reports.values()) / players, "share": share, "gave_nothing": free / players}


class Giver(Agent):
    """Gives what the others gave on average, times the parameter `matches`; at first any number."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        """A round was opened: `last` is what `settle` told of the one before."""
        last = event.value["last"]
        if last is None:
            gift = Draw(self.group.seed, self.id, turn.number, 0).choice(range(ENDOWMENT + 1))
        else:
            gift = round(last["mean"] * self.group.parameters["matches"])
        turn.report(min(gift, ENDOWMENT))


class FreeRider(Agent):
    """Gives nothing."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        """A round was opened."""
        turn.report(0)
