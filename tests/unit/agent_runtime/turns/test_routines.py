"""What a rule says for those whose time has come: checked by agent, and asked by agent where it fails for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
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
        4: "it has no position, and others of the group have one",
    }
    (acts,) = decided.list_acts()
    assert acts == ([0, 3], [1.0, 1.0], [(1.0,), (1.0,)])


NOTHING = {
    "next_ns": ([NEVER_NS, 5, NEVER_NS], [None, 5, None], np.array([NEVER_NS, 5, NEVER_NS]), pa.array([None, 5, None])),
    "values": ([None, 2.0, None], np.array([None, 2.0, None]), pa.array([None, 2.0, None])),
    "positions": (
        None,
        [None, (1.0, 2.0), None],
        [(), [1.0, 2.0], "nowhere"],
        np.array([[np.nan, np.nan], [1.0, 2.0], [np.inf, 0.0]]),
        pa.array([None, [1.0, 2.0], None]),
    ),
}


@pytest.mark.parametrize(("column", "nothing"), [(name, told) for name, tells in NOTHING.items() for told in tells])
def test_who_does_nothing_may_say_so_in_every_column_and_nobody_is_asked_again(column: str, nothing: Any) -> None:
    asked = 0

    def say(ids: Sequence[str], times: Sequence[int]) -> Routine:
        nonlocal asked
        asked += 1
        told = {name: tells[-1] for name, tells in NOTHING.items()} | {column: nothing}
        return Routine(**told, path="/a")

    decided = decide_routine(Says(say), list("abc"), [0] * 3)
    assert (asked, decided.ends, decided.next_ns) == (1, {}, [NEVER_NS, 5, NEVER_NS])
    where = None if column == "positions" and nothing is None else [[1.0, 2.0]]
    (acts,) = decided.list_acts()
    assert (acts.places, acts.values) == ([1], [2.0])
    assert (acts.positions and [list(position) for position in acts.positions]) == where


@pytest.mark.parametrize("path", ["/a", "", None])
def test_a_whole_column_of_nothing_is_nothing(path: Any) -> None:
    for values in (None, [None, None], np.array([None, None])):
        for positions in (None, [None, None], [(0, 0), None], np.zeros((2, 2))):
            rule = Says(lambda ids, times, told=(values, path, positions): Routine(None, *told))  # type: ignore[arg-type,misc]
            decided = decide_routine(rule, ["a", "b"], [0, 0])
            assert (decided.ends, decided.next_ns, list(decided.list_acts())) == ({}, [NEVER_NS] * 2, [])


def test_a_number_that_is_to_be_set_nowhere_is_a_failure() -> None:
    decided = decide_routine(Says(lambda ids, times: Routine([5, 5], [1.0, None])), ["a", "b"], [0, 0])
    assert decided.ends.keys() == {0} and "names no path" in str(decided.ends[0].reason)


def test_of_those_who_are_asked_alone_only_who_acts_says_where_and_how() -> None:
    """One that does nothing, or has failed, has its own path and no position, and keeps nobody else from acting."""
    tells = {
        "a": Routine([5], [None], "/elsewhere"),
        "b": Routine([5], [float("nan")], "/nowhere", [(0.0, 0.0)]),
        "c": Routine([5], [1.0], "/a", [(1.0, 2.0)]),
        "d": Routine([5], [2.0], "/a", [(1.0,)]),
    }

    def say(ids: Sequence[str], times: Sequence[int]) -> Routine:
        if len(ids) > 1:
            raise RuntimeError("one by one")
        return tells[ids[0]]

    decided = decide_routine(Says(say), list("abcd"), [0] * 4)
    assert decided.ends.keys() == {1, 3} and decided.path == "/a"
    assert [tuple(acts) for acts in decided.list_acts()] == [([2], [1.0], [(1.0, 2.0)])]
