"""What a rule says for those whose time has come: checked by agent, and asked by agent where it fails for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from agent_runtime.agents.agent import GroupInfo, Routine, RuleAgents
from agent_runtime.model.wakes import NEVER_NS
from agent_runtime.turns.routines import decide_routine


class Says(RuleAgents):
    """What a function gives."""

    def __init__(self, say: Callable[[Sequence[str], Sequence[int]], Any]) -> None:
        super().__init__(GroupInfo("g", {}, 0))
        self._say = say

    def wake_many(self, agent_ids: Sequence[str], times_ns: Sequence[int]) -> Any:
        return self._say(agent_ids, times_ns)


def test_columns_of_numpy_are_as_good_as_lists() -> None:
    rule = Says(lambda ids, times: Routine(np.array(times) + 5, np.array([1.5, 2.5]), "/a", np.array([[1.0, 2.0]] * 2)))
    decided = decide_routine(rule, ["a", "b"], [10, 20])
    assert (decided.next_ns, decided.path, decided.ends) == ([15, 25], "/a", {})
    (acts,) = decided.list_acts()
    assert acts == ([0, 1], [1.5, 2.5], [[1.0, 2.0], [1.0, 2.0]])


def test_each_kind_of_number_is_a_block_and_who_does_nothing_is_in_none() -> None:
    rule = Says(lambda ids, times: Routine([NEVER_NS] * 4, [1, 2.0, None, 3], "/a"))
    assert [tuple(acts) for acts in decide_routine(rule, list("abcd"), [0] * 4).list_acts()] == [
        ([0, 3], [1, 3], None),
        ([1], [2.0], None),
    ]
    quiet = decide_routine(Says(lambda ids, times: Routine([5], path="/a")), ["a"], [0])
    assert (list(quiet.list_acts()), quiet.next_ns) == ([], [5])


@pytest.mark.parametrize(
    ("next_ns", "value", "position", "reason"),
    [
        (10, 1.0, (0, 0), "cannot be woken next at 10"),
        (2**62 + 1, 1.0, (0, 0), "cannot be woken next"),
        (20, float("nan"), (0, 0), "no finite number"),
        (20, "x", (0, 0), "no finite number"),
        (20, 1.0, (float("inf"), 0), "no position"),
        (20, 1.0, (0, 0, 0), "no position"),
        (20, 1.0, None, "no position"),
    ],
)
def test_who_cannot_do_what_the_rule_says_fails_alone(next_ns: int, value: Any, position: Any, reason: str) -> None:
    rule = Says(lambda ids, times: Routine([15, next_ns], [1.0, value], "/a", [(0, 0), position]))
    decided = decide_routine(rule, ["a", "b"], [10, 10])
    assert decided.ends.keys() == {1}
    assert reason in str(decided.ends[1].reason)
    assert [acts.places for acts in decided.list_acts()] == [[0]]


@pytest.mark.parametrize(
    "say",
    [
        lambda ids, times: Routine([5] * (len(ids) - 1)),
        lambda ids, times: Routine([5] * len(ids), [1.0] * 7, "/a"),
        lambda ids, times: Routine([5.5] * len(ids)),
        lambda ids, times: Routine(["x"] * len(ids)),
        lambda ids, times: Routine([2**70] * len(ids)),
        lambda ids, times: None,
        lambda ids, times: 1 / 0,
    ],
)
def test_a_rule_that_fails_for_all_fails_for_each_with_its_reason(say: Any) -> None:
    decided = decide_routine(Says(say), ["a", "b"], [0, 0])
    assert decided.ends.keys() == {0, 1} and all(end.reason for end in decided.ends.values())
    assert decided.next_ns == [NEVER_NS] * 2


def test_agents_that_are_asked_alone_act_at_one_place() -> None:
    def say(ids: Sequence[str], times: Sequence[int]) -> Routine:
        if len(ids) > 1:
            raise RuntimeError("one by one")
        name = ids[0]
        where = [(1.0,)] if name in "ad" else None
        return Routine([5], None if name == "c" else [1.0], f"/{'b' if name == 'b' else 'a'}", where)

    decided = decide_routine(Says(say), list("abcde"), [0] * 5)
    assert {place: end.reason for place, end in decided.ends.items()} == {
        1: "others of the group act at /a, not at /b",
        4: "others of the group have a position, and it has none",
    }
    (acts,) = decided.list_acts()
    assert acts == ([0, 3], [1.0, 1.0], [(1.0,), (1.0,)])
