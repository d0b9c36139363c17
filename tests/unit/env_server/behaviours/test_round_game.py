"""A game in rounds: who reported what is told to its rules once, and what they say to the next round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from env_server.behaviours import Context, RoundGame
from env_server.model.errors import OperationRefused
from env_server.testing import behaviour_stand


class Pot(RoundGame):
    """A pot that grows."""

    kind = "pot"

    async def begin(self, ctx: Context, number: int) -> Mapping[str, Any]:
        return {"pot": ctx.get("pot") or 0, "round": 99}

    async def settle(self, ctx: Context, number: int, reports: Mapping[str, Any]) -> Mapping[str, Any]:
        pot = (ctx.get("pot") or 0) + sum(reports.values())
        ctx.set("pot", pot)
        return {"pot": pot, "who": list(reports), "number": number}


class Broken(RoundGame):
    """Cannot count."""

    kind = "broken"

    async def settle(self, ctx: Context, number: int, reports: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"mean": 1 / len(reports)}


def test_rounds_follow_each_other_and_are_told_of_the_last() -> None:
    with behaviour_stand(Pot) as stand:
        stand.register("/pot", kind="pot")
        opened = stand.invoke("/pot", "open_round", participants=3)
        assert opened == {"round": 1, "generation": 1, "reports": "/pot/reports", "last": None, "pot": 0}
        for agent, value in (("zoë", 2), ("ann", 5), ("bob", {"status": "timeout"})):
            stand.set("/pot/reports", agent, value)
        closed = stand.invoke("/pot", "close_round", generation=1)
        came = {"pot": 7, "who": ["ann", "zoë"], "number": 1}
        assert closed == came | {"round": 1, "generation": 1, "reported": 2, "failed": 1}
        stand.kill_and_restart()
        opened = stand.invoke("/pot", "open_round")
        assert opened == {"round": 2, "generation": 2, "reports": "/pot/reports", "last": came, "pot": 7}
        # What was reported in the round before is none of this one.
        assert stand.invoke("/pot", "close_round", generation=2)["who"] == []
        assert [item["round"] for item in stand.items("/pot", "history")] == [1, 2]


def test_a_round_is_opened_and_closed_once() -> None:
    with behaviour_stand(Pot) as stand:
        stand.register("/pot", kind="pot")
        with pytest.raises(OperationRefused, match="is not open"):
            stand.invoke("/pot", "close_round", generation=1)
        stand.invoke("/pot", "open_round")
        with pytest.raises(OperationRefused, match="round 1 is open"):
            stand.invoke("/pot", "open_round")
        with pytest.raises(OperationRefused, match="must not be negative"):
            stand.invoke("/pot", "open_round", participants=-1)
        stand.invoke("/pot", "close_round", generation=1)
        with pytest.raises(OperationRefused, match="is not open"):
            stand.invoke("/pot", "close_round", generation=1)


def test_rules_that_raise_leave_the_round_open() -> None:
    with behaviour_stand(Broken) as stand:
        stand.register("/x", kind="broken")
        stand.invoke("/x", "open_round")
        with pytest.raises(Exception, match=r"(?i)internal|incident"):
            stand.invoke("/x", "close_round", generation=1)
        stand.set("/x/reports", "ann", 1)
        assert stand.invoke("/x", "close_round", generation=1)["mean"] == 1
