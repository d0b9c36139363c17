"""Moves: changes with versions of their own, checked before anything happens, taken back whole, and no reports."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.model.changes import EventType
from env_server.model.entries import COUNTER, MEMBER, STREAM, VALUE
from env_server.model.environments import Aggregate, Function, Gate
from env_server.model.errors import Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.operations import Code, Delete, Placed, Precondition, RegisterEntry, Transact, Write
from env_server.model.operations import Test as Condition
from env_server.model.spaces import Box, Grid, Proximity, Region, Space
from env_server.model.values import NOTHING, Json
from tests.engine import Op, Stand, add, drop, new_environment, put
from tests.leased import begin, granted, join, revoke

SPACE = Space(Grid(8, 8, capacity=2), (Region("home", Box((0.0, 0.0), (1.0, 1.0))),), (Proximity("met", 1.0),))
MOVED, ENTERED, LEFT = int(EventType.ENTRY_MOVED), int(EventType.REGION_ENTERED), int(EventType.REGION_LEFT)
MET, PARTED = int(EventType.PROXIMITY_ENTERED), int(EventType.PROXIMITY_LEFT)


def move(key: str, *position: float, path: str = "/g", **beside: Any) -> Op:
    return Op(path, key, Code.MOVE, tuple(map(float, position)), **beside)


def place(key: str, value: Any, *position: float, **beside: Any) -> Op:
    return Op("/g", key, Code.PLACE, Placed(value, tuple(map(float, position))), **beside)


def transact(*writes: Op) -> Op:
    return Op("/", "", Code.TRANSACT, Transact((), tuple(Write(*op[:4]) for op in writes)))


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.done(new_environment("/g", space=SPACE), put("/g", "a", 1), put("/g", "b", 2))
    return stand


def entry(stand: Stand, key: str) -> Any:
    return stand.world._tree.nodes.by_path["/g"].entries.get(key)


def rows_from(stand: Stand, revision: int) -> list[tuple[int, int, str, Any, int]]:
    """Revision, type, key, position or document, version."""
    return [
        (
            *(changes.revisions[row], int(changes.types[row]), key),
            changes.told_position(row) or getattr(changes.told_value(row), "document", changes.told_value(row)),
            changes.versions[row],
        )
        for changes in stand.records()
        for row, key in enumerate(changes.keys)
        if changes.revisions[row] >= revision
    ]


def test_a_move_is_a_change_with_its_crossings_in_one_revision(stand: Stand) -> None:
    stand.done(move("a", 1, 1))
    before = stand.world.revision
    written: Any = stand.done(move("b", 2, 1, producer="p", seq=1))[0]
    assert (written.revision, written.version) == (before + 1, 2)
    assert rows_from(stand, before + 1) == [
        (before + 1, MOVED, "b", (2.0, 1.0), 2),
        (before + 1, MET, "b", {"proximity": "met", "other": "a"}, 0),
        (before + 1, MET, "a", {"proximity": "met", "other": "b"}, 0),
    ]
    assert entry(stand, "b") == (2, 2, 4, before + 1, VALUE, 0, (2.0, 1.0), 4)
    again = stand.do(move("b", 5, 5, producer="p", seq=1))
    assert again.is_duplicate() and again.written == written


def test_where_it_is_already_is_told_and_crosses_nothing(stand: Stand) -> None:
    stand.done(move("a", 0, 0), move("b", 1, 0))
    before = stand.world.revision
    stand.done(move("a", 0, 0))
    assert rows_from(stand, before + 1) == [(before + 1, MOVED, "a", (0.0, 0.0), 3)]


def test_an_empty_position_leaves_the_space(stand: Stand) -> None:
    stand.done(move("a", 1, 1))
    before = stand.world.revision
    stand.done(move("a"))
    assert rows_from(stand, before + 1) == [
        (before + 1, MOVED, "a", NOTHING, 3),
        (before + 1, LEFT, "a", {"region": "home"}, 0),
    ]
    assert entry(stand, "a").position is None
    stand.done(move("a"))  # nowhere already


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (move("nobody", 1, 1), Reason.ENTRY_NOT_FOUND),
        (move("a/b", 1, 1), Reason.INVALID_KEY),
        (move("a", 8, 1), Reason.INVALID_POSITION),
        (move("a", -1, 1), Reason.INVALID_POSITION),
        (move("a", 0.5, 1), Reason.INVALID_POSITION),
        (move("a", 1), Reason.INVALID_POSITION),
        (move("a", 1, 1, 1), Reason.INVALID_POSITION),
        (move("a", float("nan"), 1), Reason.INVALID_POSITION),
        (move("x", 1, 1, path="/"), Reason.SPACE_NOT_FOUND),
        (place("new", 1, 9, 9), Reason.INVALID_POSITION),
        (Op("/", "x", Code.PLACE, Placed(1, (1.0, 1.0))), Reason.SPACE_NOT_FOUND),
        (Op("/g", "n", Code.REGISTER_ENTRY, RegisterEntry(VALUE, 1, position=(1.0, 9.0))), Reason.INVALID_POSITION),
        (Op("/", "n", Code.REGISTER_ENTRY, RegisterEntry(VALUE, 1, position=(1.0, 1.0))), Reason.SPACE_NOT_FOUND),
        (move("full", 5, 5), Reason.CELL_FULL),
        (place("third", 1, 5, 5), Reason.CELL_FULL),
    ],
)
def test_what_cannot_be_changes_nothing(stand: Stand, op: Op, reason: Reason) -> None:
    stand.done(put("/g", "full", 0), move("a", 5, 5), move("b", 5, 5))
    before, revision = dict(stand.world._tree.nodes.by_path["/g"].entries), stand.world.revision
    assert stand.do(op).error.reason is reason
    assert dict(stand.world._tree.nodes.by_path["/g"].entries) == before
    assert stand.world.revision == revision


def test_its_own_cell_is_not_too_full_for_it(stand: Stand) -> None:
    stand.done(move("a", 5, 5), move("b", 5, 5), move("a", 5, 5), place("b", 9, 5, 5))
    error = stand.do(place("c", 1, 5, 5)).error
    assert error.metadata == {"path": "/g", "key": "c", "capacity": "2"}


def test_a_placing_sets_and_moves_in_one_revision(stand: Stand) -> None:
    before = stand.world.revision
    created, changed = stand.done(place("c", "new", 0, 0), place("a", "old", 1, 0, producer="p", seq=3))
    assert [(one.revision, one.version) for one in (created, changed)] == [(before + 1, 2), (before + 2, 3)]  # type: ignore[union-attr]
    assert rows_from(stand, before + 1)[:3] == [
        (before + 1, int(EventType.ENTRY_SET), "c", "new", 1),
        (before + 1, MOVED, "c", (0.0, 0.0), 2),
        (before + 1, ENTERED, "c", {"region": "home"}, 0),
    ]
    assert entry(stand, "a").written == 0, "the placing is a part of the change"
    assert stand.do(place("a", "again", 3, 3, version=2)).error.reason is Reason.PRECONDITION_FAILED
    live = stand.world._producers.marks["p"]
    stand.reopen()
    assert stand.world._producers.marks["p"] == live, "the log tells the version of the whole op"
    assert stand.do(place("a", 0, 5, 5, producer="p", seq=3)).written == changed


@pytest.mark.parametrize(
    ("kind", "value", "event"),
    [
        (VALUE, "v", EventType.ENTRY_SET),
        (COUNTER, 3, EventType.ENTRY_INCREMENTED),
        (STREAM, NOTHING, EventType.ENTRY_APPENDED),
        (MEMBER, None, EventType.MEMBER_JOINED),
    ],
)
def test_a_registration_with_a_position_places_the_entry(stand: Stand, kind: int, value: Any, event: EventType) -> None:
    lease = granted(stand) if kind == MEMBER else 0
    asked = RegisterEntry(kind, value, lease=lease, position=(1.0, 1.0), if_absent=True)
    before = stand.world.revision
    written: Any = stand.done(Op("/g", "n", Code.REGISTER_ENTRY, asked))[0]
    assert written.version == 2
    told = rows_from(stand, before + 1)
    assert [row[1] for row in told] == [int(event), MOVED, ENTERED]
    found = entry(stand, "n")
    assert (found.kind, found.position, found.version) == (kind, (1.0, 1.0), 2)
    elsewhere = RegisterEntry(kind, value, lease=lease, position=(7.0, 7.0), if_absent=True)
    assert not stand.done(Op("/g", "n", Code.REGISTER_ENTRY, elsewhere))[0].changed  # type: ignore[union-attr]
    assert entry(stand, "n") == found, "one that is there is left where it is"
    stand.reopen()
    assert entry(stand, "n") == found


def test_a_position_stays_through_writes_of_every_kind(stand: Stand) -> None:
    stream = RegisterEntry(STREAM, position=(3.0, 1.0))
    stand.done(
        move("a", 1, 1),
        add("/g", "n", 1),
        move("n", 2, 2),
        Op("/g", "s", Code.REGISTER_ENTRY, stream),
        put("/g", "j", Json(b'{"x":1}')),
        move("j", 4, 4),
    )
    stand.done(
        put("/g", "a", 5),
        add("/g", "n", 1),
        Op("/g", "s", Code.APPEND, "x"),
        Op("/g", "j", Code.MERGE, Json(b'{"y":2}')),
    )
    where = {"a": (1.0, 1.0), "n": (2.0, 2.0), "s": (3.0, 1.0), "j": (4.0, 4.0)}
    for _ in range(2):
        assert {key: entry(stand, key).position for key in where} == where
        stand.reopen()


def test_what_is_deleted_leaves_after_its_row(stand: Stand) -> None:
    stand.done(move("a", 1, 1), move("b", 1, 0))
    before = stand.world.revision
    stand.done(drop("/g", "a"))
    assert [row[1:4] for row in rows_from(stand, before + 1)] == [
        (int(EventType.ENTRY_DELETED), "a", NOTHING),
        (LEFT, "a", {"region": "home"}),
        (PARTED, "a", {"proximity": "met", "other": "b"}),
        (PARTED, "b", {"proximity": "met", "other": "a"}),
    ]
    stand.done(place("a", 1, 7, 7))
    assert PARTED not in [row[1] for row in rows_from(stand, before + 2)]


def test_what_expires_leaves_too(stand: Stand) -> None:
    lease = granted(stand)
    stand.done(join("/g", "m", lease), move("m", 1, 1), move("b", 1, 0))
    before = stand.world.revision
    stand.done(revoke(lease))
    stand.clock.advance(1.0)
    stand.clock.settle()
    told = [row[1:3] for row in rows_from(stand, before + 1)]
    assert told[-4:] == [(int(EventType.MEMBER_EXPIRED), "m"), (LEFT, "m"), (PARTED, "m"), (PARTED, "b")]


def test_a_transaction_that_fails_takes_everything_back(stand: Stand) -> None:
    stand.done(move("a", 1, 1), move("b", 1, 0))
    node = stand.world._tree.nodes.by_path["/g"]
    before, revision = dict(node.entries), stand.world.revision
    assert node.space is not None
    near = node.space.within((1.0, 1.0), 9.0)
    outcome = stand.do(
        transact(
            move("a", 5, 5),
            place("b", 7, 6, 6),
            place("new", 1, 1, 1),
            Op("/g", "a", Code.DELETE_ENTRY, Delete()),
            move("b"),
            drop("/g", "nobody"),
        )
    )
    assert outcome.error.reason is Reason.ENTRY_NOT_FOUND
    assert dict(node.entries) == before
    assert node.space.within((1.0, 1.0), 9.0) == near
    assert stand.world.revision == revision
    assert not stand.world._tree.changes.keys


def test_a_transaction_moves_as_often_as_it_says(stand: Stand) -> None:
    stand.done(move("b", 1, 0))
    before = stand.world.revision
    stand.done(transact(move("a", 1, 1), move("a", 7, 7), put("/g", "a", "there")))
    told = rows_from(stand, before + 1)
    assert {row[0] for row in told} == {before + 1}
    assert [row[1] for row in told] == [MOVED, ENTERED, MET, MET, MOVED, LEFT, PARTED, PARTED, int(EventType.ENTRY_SET)]
    live = entry(stand, "a")
    stand.reopen()
    assert entry(stand, "a") == live == ("there", 4, 3, before + 1, VALUE, 0, (7.0, 7.0), 0)


def test_an_environment_goes_with_its_positions_and_without_a_word(stand: Stand) -> None:
    stand.done(move("a", 1, 1), move("b", 1, 0))
    before = stand.world.revision
    stand.done(drop("/g", ""))
    assert [row[1] for row in rows_from(stand, before + 1)] == [int(EventType.ENVIRONMENT_DELETED)]
    stand.done(new_environment("/g", space=SPACE), place("a", 1, 1, 1))
    assert [row[1] for row in rows_from(stand, before + 3)][-1] == ENTERED


def test_a_move_is_no_report_and_changes_no_aggregate() -> None:
    stand = Stand()
    aggregates = (Aggregate("n", Function.COUNT, in_generation=True), Aggregate("sum", Function.SUM))
    stand.done(new_environment("/g", space=SPACE, gates=(Gate("g", 2),), aggregates=aggregates), put("/g", "a", 1))
    stand.done(begin("/g"))
    before = stand.world.revision
    stand.done(move("a", 1, 1), place("b", 2, 2, 2))
    node = stand.world._tree.nodes.by_path["/g"]
    for _ in range(2):
        tally = node.tally
        assert tally is not None
        assert tally.reported == 1, "the placing wrote a value, the move did not"
        assert [value.value for value in tally.values()] == [1, 3]
        told = [row[1] for row in rows_from(stand, before + 1) if row[0] == before + 1]
        assert told == [MOVED, ENTERED], "no aggregate is told"
        stand.reopen()
        node = stand.world._tree.nodes.by_path["/g"]
    stand.done(move("b", 3, 3))
    assert node.tally is not None and node.tally.reported == 1
    stand.done(put("/g", "a", 5))
    assert node.gate is not None and node.gate.opened, "a later value is a report"


def test_a_version_is_expected_of_moves_too(stand: Stand) -> None:
    assert stand.do(move("a", 1, 1, version=7)).error.reason is Reason.PRECONDITION_FAILED
    stand.done(move("a", 1, 1, version=1))
    condition = Precondition(Condition.VERSION, 2, "/g", "a")
    stand.done(move("a", 2, 2, preconditions=(condition,)))
    assert entry(stand, "a").version == 3


def test_a_crowd_is_entered_by_so_many_and_left_by_all() -> None:
    stand = Stand(limits=Limits(move_looks_max=12))
    stand.done(new_environment("/g", space=Space(Grid(8, 8), proximities=(Proximity("met", 1.0),))))
    outcomes = [stand.do(place(f"k{index}", 0, 3, 3)) for index in range(20)]
    failed = [sent.error for sent in outcomes if isinstance(sent.outcome(), WorldError)]
    assert {error.reason for error in failed} == {Reason.RATE_LIMITED}
    assert failed[0].metadata["limit"] == "move_looks_max" and failed[0].metadata["proximity"] == "met"
    assert failed[0].retry_delay_ms
    inside = len(outcomes) - len(failed)
    assert 3 < inside < 12
    for index in range(inside):
        stand.done(drop("/g", f"k{index}") if index % 2 else move(f"k{index}"))
    assert stand.do(place("late", 0, 3, 3)).written.version == 2


def test_what_moves_look_at_is_bounded_in_a_group() -> None:
    stand = Stand(limits=Limits(group_looks_max=30))
    stand.done(new_environment("/g", space=Space(Grid(8, 8), proximities=(Proximity("met", 8.0),))))
    stand.done(*(place(f"k{index}", 0, index, index) for index in range(4)))
    sent = stand.do(*(move("k1", index % 8, 3) for index in range(20)))
    reasons = {sent.outcome(index).reason for index in range(20) if isinstance(sent.outcome(index), WorldError)}  # type: ignore[union-attr]
    assert reasons == {Reason.RATE_LIMITED}
    assert stand.do(move("k1", 7, 7)).written.version > 2, "the next group begins anew"


def test_what_moves_cross_is_bounded_in_a_group_and_those_refused_stay_where_they_are() -> None:
    """One frame of 4,096 moves into a thousand regions was a loop step of seven seconds, and 600 MB."""
    stand = Stand(limits=Limits(group_looks_max=1_000))
    regions = tuple(Region(f"r{number}", Box((1.0, 1.0), (7.0, 7.0))) for number in range(100))
    stand.done(new_environment("/g", space=Space(Grid(8, 8), regions)))
    stand.done(*(place(f"k{index}", 0, 0, 0) for index in range(20)))
    sent = stand.do(*(move(f"k{index}", 3, 3) for index in range(20)))
    inside = [index for index in range(20) if not isinstance(sent.outcome(index), WorldError)]
    assert inside == [0, 1, 2], "4 looks for each of 84 regions beyond those in the price of a move"
    assert sent.outcome(3).reason is Reason.RATE_LIMITED  # type: ignore[union-attr]
    assert [entry(stand, f"k{index}").position for index in (2, 3)] == [(3.0, 3.0), (0.0, 0.0)]
    entered = [row for row in rows_from(stand, 1) if row[1] == ENTERED]
    assert len(entered) == 300
    stand.done(move("k3", 3, 3), drop("/g", "k2"), move("k0"))
