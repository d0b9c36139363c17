"""Equal states have equal hashes, and whatever changes is seen."""

from __future__ import annotations

import threading
from typing import Any

from agent_runtime.agents.agent import Agent, GroupInfo
from agent_runtime.agents.state_hash import hash_agent


class Keeper(Agent):
    """Has attributes of many kinds."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.plans = {"b": [1, 2], "a": {3, 1}}
        self.lock = threading.Lock()
        self.itself = self


def make() -> Keeper:
    return Keeper("a-1", {"age": 3}, GroupInfo("g", {}, 0))


def test_equal_states_have_equal_hashes() -> None:
    assert hash_agent(make()) == hash_agent(make())


def test_every_change_is_seen() -> None:
    seen = {hash_agent(make())}
    for change in (
        lambda keeper: keeper.memory.remember("x"),
        lambda keeper: keeper.plans["b"].append(3),
        lambda keeper: keeper.plans["a"].add(2),
        lambda keeper: setattr(keeper, "new", None),
        lambda keeper: setattr(keeper, "profile", {"age": 4}),
    ):
        keeper = make()
        change(keeper)
        seen.add(hash_agent(keeper))
    assert len(seen) == 6
