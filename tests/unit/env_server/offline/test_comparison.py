"""What is derived from a state is held against the state itself: aggregates over children, and gates."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from env_server.model.environments import Aggregate, Function, Gate, Scope
from env_server.offline.comparison import check_aggregates, check_gates
from env_server.offline.contents import Problems, State
from env_server.state_tree.nodes import Node
from tests.engine import Stand, new_environment, put
from tests.leased import begin, granted, join, set_gate

TOTAL = Aggregate("total", Function.SUM, Scope.CHILDREN)
BUCKETS = Aggregate("buckets", Function.HISTOGRAM, Scope.CHILDREN, bounds=(0.0, 1.0))


def stored() -> State:
    """A world of three levels, with a gate that waits for one of two members, as the log tells it."""
    stand = Stand()
    own = (Aggregate("total", Function.SUM), Aggregate("buckets", Function.HISTOGRAM, bounds=(0.0, 1.0)))
    in_round = (Aggregate("total", Function.SUM, in_generation=True), own[1])
    stand.done(
        new_environment("/w", aggregates=(TOTAL, BUCKETS)),
        new_environment("/w/c", aggregates=(TOTAL, BUCKETS)),
        new_environment("/w/c/x", aggregates=own),
        new_environment("/w/r", aggregates=in_round, gates=(Gate("g"),)),
        new_environment("/w/other", aggregates=(Aggregate("total", Function.MAX),)),
        new_environment("/members"),
    )
    lease = granted(stand)
    stand.done(join("/members", "ada", lease), join("/members", "bob", lease))
    stand.done(put("/w/c/x", "a", 0.1), put("/w/c/x", "b", 3), put("/w/r", "early", 5), put("/w/other", "a", 9))
    stand.done(set_gate("/w/r", members_path="/members"), begin("/w/r"), put("/w/r", "ada", 7), put("/w/r", "else", 1))
    state = State()
    for changes in stand.records():
        state.record(changes)
    state.finish()
    return state


def problems_of(state: State) -> list[str]:
    problems = Problems()
    check_aggregates(state, problems)
    check_gates(state, problems)
    return [problem.what for problem in problems.told]


def test_nothing_is_told_of_what_is_as_it_should_be() -> None:
    state = stored()
    assert check_aggregates(state, Problems()) == 9
    assert problems_of(state) == []


def shift_share(node: Node) -> None:
    assert node.tally is not None
    node.tally.roll_ups["total"].account.add(1e-9)


def drop_bucket(node: Node) -> None:
    assert node.tally is not None
    node.tally.roll_ups["buckets"].account.entries -= 1


def miss_one_more(node: Node) -> None:
    assert node.attendance is not None
    node.attendance.missing += 1


def forget_a_member(node: Node) -> None:
    assert node.attendance is not None
    node.attendance.members -= 1


def forget_attendance(node: Node) -> None:
    node.attendance = None


def count_a_report_twice(node: Node) -> None:
    assert node.tally is not None
    node.tally.reported += 1


def report_for_all(node: Node) -> None:
    node.entries["bob"] = node.entries["ada"]


@pytest.mark.parametrize(
    ("path", "plant", "words"),
    [
        ("/w", shift_share, "'total' is not the exact one"),
        ("/w", drop_bucket, "'buckets' is not the exact one"),
        ("/w/c", shift_share, "'total' is not the exact one"),
        ("/w/r", miss_one_more, "waits for 2 of 2 members instead of 1 of 2"),
        ("/w/r", forget_a_member, "waits for 1 of 1 members instead of 1 of 2"),
        ("/w/r", forget_attendance, "or the reverse"),
        ("/w/r", count_a_report_twice, "3 reports instead of 2"),
        ("/w/r", report_for_all, "collects although all that it waits for is there"),
    ],
)
def test_what_is_not_is_told(path: str, plant: Callable[[Node], None], words: str) -> None:
    state = stored()
    plant(state.tree.nodes.by_path[path])
    assert any(words in what for what in problems_of(state))
