"""Agents of a class, as a group's description wants them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from agent_runtime.agents.agent import GroupInfo, RuleAgents
from agent_runtime.agents.cohort import Cohort
from agent_runtime.agents.making import list_first_wakes
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.wakes import NEVER_NS
from agent_runtime.settings import GroupSpec

GROUP = GroupInfo("g", {}, 0)
COHORT = Cohort(pa.table({"agent_id": ["a-1", "a-2"]}))


def spec(first_wake_ns: int | None) -> GroupSpec:
    wake = [{"path": "/a"}]
    given = {
        "name": "g",
        "agent": "x",
        "agents": Path("a"),
        "wake": wake,
        "clock": "/a",
        "first_wake_ns": first_wake_ns,
    }
    return GroupSpec.model_validate(given)


class Odd(RuleAgents):
    given: Any = None

    def first_wakes(self, agent_ids: Sequence[str], first_ns: int) -> Any:
        return self.given(agent_ids, first_ns)


def test_everybody_is_woken_first_when_the_group_says_or_the_rule_does() -> None:
    assert list_first_wakes(spec(None), COHORT, GROUP, Odd(GROUP)) is None, "nobody is asked"
    for agents in (None, RuleAgents(GROUP)):
        times = list_first_wakes(spec(5), COHORT, GROUP, agents)
        assert times is not None and times.tolist() == [5, 5]
    odd = Odd(GROUP)
    odd.given = lambda ids, first_ns: [first_ns + int(name[-1]) for name in ids]
    times = list_first_wakes(spec(5), COHORT, GROUP, odd)
    assert times is not None and times.tolist() == [6, 7]


@pytest.mark.parametrize("nothing", [[None, 7], [NEVER_NS, 7], np.array([NEVER_NS, 7]), pa.array([None, 7])])
def test_who_is_not_woken_by_the_clock_may_be_said_in_all_ways(nothing: Any) -> None:
    odd = Odd(GROUP)
    odd.given = lambda ids, at: nothing
    times = list_first_wakes(spec(5), COHORT, GROUP, odd)
    assert times is not None and times.tolist() == [NEVER_NS, 7]


@pytest.mark.parametrize(
    "given",
    [
        lambda ids, at: [1],
        lambda ids, at: 1 / 0,
        lambda ids, at: ["x", "y"],
        lambda ids, at: 5,
        lambda ids, at: [1.5, 2.5],
        lambda ids, at: [float("nan"), 5],
        lambda ids, at: [2**62 + 1, 5],
        lambda ids, at: [-(2**62) - 1, 5],
    ],
)
def test_a_rule_that_does_not_say_when_is_told_before_anybody_is_woken(given: Any) -> None:
    odd = Odd(GROUP)
    odd.given = given
    with pytest.raises(LaunchError, match=r"groups\.g\.parameters"):
        list_first_wakes(spec(5), COHORT, GROUP, odd)
