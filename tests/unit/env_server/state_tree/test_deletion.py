"""Deletion: one row an environment, all or nothing, and what was held is let go in slices."""

from __future__ import annotations

from typing import Any

from env_server.model.changes import EventType
from env_server.model.environments import Access, Aggregate, Declaration, Function, Grant
from env_server.model.errors import Reason
from env_server.model.operations import Code, Delete, Placed, RegisterEnvironment, Transact, Write
from env_server.model.spaces import Plane, Space
from env_server.model.values import NOTHING, Json
from tests.engine import Op, Stand, drop, get, new_environment, put

ALL = Op("/w", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True))


def fill(stand: Stand, environments: int, entries: int, **declared: Any) -> None:
    stand.done(new_environment("/w", **declared))
    stand.done(*[new_environment(f"/w/c{number}", **declared) for number in range(environments)])
    stand.done(*[put("/w", f"k{number}", float(number)) for number in range(entries)])


def picture(stand: Stand) -> dict[str, Any]:
    nodes = stand.world._tree.nodes.by_path
    return {path: (node.number, node.version, dict(node.entries)) for path, node in nodes.items()}


def steps_until_clear(stand: Stand) -> int:
    """Loop steps until nothing is left of what was deleted."""
    count = 0
    while stand.world._tree.remains:
        stand.clock.step()
        count += 1
    return count


def test_one_row_an_environment_in_one_revision_and_none_carries_a_config() -> None:
    stand = Stand()
    fill(stand, 20, 100, config=Json(b'"' + b"x" * 100_000 + b'"'))
    before = stand.world.revision
    stand.done(ALL)
    rows = [row for row in stand.rows() if row[0] > before]
    assert {(row[0], row[1], row[4]) for row in rows} == {(before + 1, int(EventType.ENVIRONMENT_DELETED), NOTHING)}
    assert [row[2] for row in rows] == ["/w", *sorted(f"/w/c{number}" for number in range(20))]
    assert stand.records()[-1].size_bytes < 4096
    for _ in range(2):
        assert stand.do(get("/w/c1")).error.reason is Reason.ENVIRONMENT_NOT_FOUND
        assert stand.do(put("/w", "k1", 1)).error.reason is Reason.ENVIRONMENT_NOT_FOUND
        stand.reopen()


def test_what_was_held_is_let_go_in_slices_between_others_ops() -> None:
    stand = Stand()
    held = Aggregate("most", Function.MAX)
    fill(stand, 50, 4000, aggregates=(held,))
    node = stand.world._tree.nodes.by_path["/w"]
    stand.send(ALL)
    assert len(node.entries) == 4000, "nothing is taken apart in the deletion's own step"
    entries, was = node.entries, 4000
    steps = 0
    while stand.world._tree.remains:
        stand.clock.step()
        steps += 1
        assert was - len(entries) <= 2048
        was = len(entries)
        stand.send(new_environment(f"/other{steps}"))
    assert steps >= 6, "entries, keys that the tables lack, and the extremes"
    assert not node.entries and not node.unsaved and not node.children
    stand.clock.settle()
    assert "/other1" in stand.world._tree.nodes.by_path


def test_who_was_where_is_let_go_in_slices_too() -> None:
    stand = Stand()
    stand.done(new_environment("/w", space=Space(Plane(0.0, 0.0, 1.0, 1.0))))
    stand.done(*[Op("/w", f"k{number}", Code.PLACE, Placed(1, (number / 4096, 0.5))) for number in range(4096)])
    index: Any = stand.world._tree.nodes.by_path["/w"].space
    stand.send(ALL)
    assert len(index) == 4096
    was, steps = 4096, 0
    while stand.world._tree.remains:
        stand.clock.step()
        assert was - len(index) <= 2048
        was, steps = len(index), steps + 1
    assert not was and steps >= 5 and not index.let_go(1)


def test_a_deletion_that_is_taken_back_left_everything_as_it_was() -> None:
    stand = Stand()
    fill(stand, 30, 30, aggregates=(Aggregate("n", Function.COUNT),), grants=(Grant("/g", Access.READ),))
    tree = stand.world._tree
    before = picture(stand)
    again = Write("/w", "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(Declaration()))
    gone = Write("/w", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True))
    child = Write("/w/c3", "", Code.DELETE_ENVIRONMENT, Delete())
    failing = Write("/nowhere", "k", Code.SET, 1)
    for writes in ((gone, failing), (child, gone, again, gone, failing), (child, failing)):
        stand.do(Op("/", "", Code.TRANSACT, Transact((), writes, ())))
        assert not tree.remains
        assert picture(stand) == before
        assert tree.grants.view_of("/g").sees("/w/c3")
    stand.done(put("/w", "k1", 5), put("/w/c3", "k", 1))
    stand.stop()
    stand.open()
    assert stand.value("/w/c3", "k") == 1


def test_a_path_may_be_used_again_at_once_and_inherits_nothing() -> None:
    stand = Stand()
    fill(stand, 3, 10)
    stand.done(ALL, new_environment("/w"), put("/w", "k1", "new"))
    for _ in range(2):
        assert stand.value("/w", "k1") == "new"
        assert stand.value("/w", "k2") is NOTHING
        assert stand.do(get("/w/c1")).error.reason is Reason.ENVIRONMENT_NOT_FOUND
        stand.reopen()
    stand.done(drop("/w", "k1"))
    steps_until_clear(stand)
    stand.stop()
    stand.open()
    assert stand.value("/w", "k1") is NOTHING
