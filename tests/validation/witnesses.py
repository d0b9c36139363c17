"""Agents that tell who they are, as they find it in their profile."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from agent_runtime.agents.agent import Agent

if TYPE_CHECKING:
    from ecumene.client import Event

    from agent_runtime.turns.turn import Turn

PLACE = "/people"


class Witness(Agent):
    """Its whole profile, under its id; and its city, if it has one, under a key with the name of that."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        """One turn."""
        turn.report(50.0)
        turn.act("witness", PLACE, self.id, dict(self.profile))
        if "city" in self.profile:
            turn.act("live", PLACE, name_entry(self.id, self.profile["city"]), str(self.profile["city"]))


def name_entry(agent: str, city: str) -> str:
    """A key: at most 128 bytes in normal form C, without what no key may hold."""
    signs = [sign for sign in unicodedata.normalize("NFC", city) if sign != "/" and unicodedata.category(sign) != "Cc"]
    return unicodedata.normalize("NFC", f"{agent} {''.join(signs)[:30]}")
