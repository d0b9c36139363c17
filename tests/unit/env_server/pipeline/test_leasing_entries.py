"""What lives under a lease: members, owners, locks; registered elsewhere, deleted, taken back."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.model.changes import EventType
from env_server.model.entries import COUNTER, MEMBER, STREAM, VALUE
from env_server.model.environments import Declaration
from env_server.model.errors import (
    AlreadyExists,
    Fenced,
    InvalidRequest,
    KindMismatch,
    NotFound,
    Reason,
)
from env_server.model.frames import EntryRead
from env_server.model.operations import Code, Delete, Precondition, RegisterEnvironment, Transact, Write
from env_server.model.operations import Test as ConditionTest
from env_server.model.values import NOTHING, Json
from tests.engine import Op, Stand, add, drop, get, new_environment, put
from tests.leased import ends, events, granted, hold, join, living, revoke


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.done(new_environment("/town"))
    return stand


def merge(path: str, key: str, patch: Any) -> Op:
    return Op(path, key, Code.MERGE, Json.of(patch))


def test_only_living_leases_take_anything(stand: Stand) -> None:
    lease = granted(stand)
    stand.done(revoke(lease))
    rows = len(stand.rows())
    for number, reason in ((lease, Reason.LEASE_EXPIRED), (999_999, Reason.LEASE_NOT_FOUND)):
        declared = RegisterEnvironment(Declaration(lease=number), if_absent=True)
        for op in (
            join("/town", "ann", number),
            hold("/town", "k", number, if_absent=True),
            Op("/town/x", "", Code.REGISTER_ENVIRONMENT, declared),
            revoke(number),
        ):
            assert stand.do(op).error.reason is reason
    stand.reopen()
    assert stand.do(join("/town", "ann", lease)).error.reason is Reason.LEASE_EXPIRED
    assert len(stand.rows()) == rows


def test_members_need_a_lease_and_hold_a_value_that_changes(stand: Stand) -> None:
    error = stand.do(join("/town", "ann", 0)).error
    assert isinstance(error, InvalidRequest)
    assert error.violations[0][0] == "register.lease_id"
    lease = granted(stand)
    stand.done(join("/town", "ann", lease, Json.of({"role": "host"})))
    stand.done(merge("/town", "ann", {"mood": "calm"}), put("/town", "bob", 1))
    entry = stand.do(get("/town", "ann")).entry
    assert (entry.kind, entry.version, entry.lease) == (MEMBER, 2, lease)
    stand.done(put("/town", "ann", "just text"))
    assert isinstance(stand.do(add("/town", "ann", 1)).error, KindMismatch)
    types = [type_ for _, type_, _, key, _ in stand.rows() if key == "ann"]
    assert types == [EventType.MEMBER_JOINED, EventType.ENTRY_SET, EventType.ENTRY_SET]
    stand.reopen()
    entry = stand.do(get("/town", "ann")).entry
    assert (entry.kind, entry.value, entry.version, entry.lease) == (MEMBER, "just text", 3, lease)
    stand.done(drop("/town", "ann"))
    assert stand.rows()[-1][1] == EventType.MEMBER_LEFT
    assert living(stand)[lease].entries == 0


def test_what_is_there_under_another_lease_is_never_taken_for_ones_own(stand: Stand) -> None:
    mine, other = granted(stand), granted(stand)
    stand.done(join("/town", "ann", mine), put("/town", "plain", 1))
    again = stand.do(join("/town", "ann", mine, if_absent=True)).written
    assert not again.changed
    for op in (
        join("/town", "ann", other, if_absent=True),
        join("/town", "ann", mine),
        hold("/town", "plain", mine, if_absent=True),
    ):
        assert isinstance(stand.do(op).error, AlreadyExists)
    assert isinstance(stand.do(hold("/town", "ann", mine, if_absent=True)).error, KindMismatch)
    room = Op("/town/room", "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(Declaration(lease=mine), if_absent=True))
    stand.done(room)
    assert not stand.do(room).written.changed
    stolen = RegisterEnvironment(Declaration(lease=other), if_absent=True)
    assert isinstance(stand.do(Op("/town/room", "", Code.REGISTER_ENVIRONMENT, stolen)).error, AlreadyExists)


def test_what_was_registered_anew_elsewhere_is_not_touched(stand: Stand) -> None:
    old, new = granted(stand, 2000), granted(stand, 60_000)
    stand.done(join("/town", "ann", old), hold("/town", "k", old, 1), hold("/town", "free", old, 1))
    stand.done(drop("/town", "ann"), drop("/town", "k"), drop("/town", "free"))
    stand.done(join("/town", "ann", new), hold("/town", "k", new, 2), put("/town", "free", 3))
    stand.clock.advance(5)
    assert ends(stand) == [(str(old), "expired")]
    assert [stand.value("/town", key) for key in ("ann", "k", "free")] == [None, 2, 3]
    assert events(stand, EventType.MEMBER_EXPIRED) == []


def test_an_environment_that_is_deleted_takes_what_lives_in_it_from_all_leases(stand: Stand) -> None:
    lease = granted(stand, 3000)
    stand.done(new_environment("/hall"), *[join("/hall", f"m{n}", lease) for n in range(5)], join("/town", "t", lease))
    assert living(stand)[lease].entries == 6
    stand.done(Op("/hall", "", Code.DELETE_ENVIRONMENT, Delete()))
    assert living(stand)[lease].entries == 1
    stand.done(new_environment("/hall"), put("/hall", "m0", "mine"))
    stand.clock.advance(4)
    assert stand.value("/hall", "m0") == "mine"
    assert [key for _, _, key in events(stand, EventType.MEMBER_EXPIRED)] == ["t"]


def test_leases_over_many_environments_that_come_and_go_hold_no_memory(stand: Stand) -> None:
    lease = granted(stand, 60_000)
    for number in range(300):
        stand.done(new_environment(f"/town/r{number}"), join(f"/town/r{number}", "m", lease))
        stand.done(drop(f"/town/r{number}", ""))
    assert living(stand)[lease].entries == 0
    assert len(stand.world._tree.holdings._by_lease[lease].by_number) <= 130


def test_a_transaction_that_fails_leaves_leases_as_they_were(stand: Stand) -> None:
    lease, other = granted(stand), granted(stand)
    stand.done(join("/town", "ann", lease), new_environment("/hall"), join("/hall", "m", lease))
    rows = len(stand.rows())

    def write(path: str, key: str, op: Op) -> Write:
        return Write(path, key, Code(op.code), op.argument)

    writes = (
        write("/town", "bob", join("/town", "bob", lease)),
        write("/town", "ann", drop("/town", "ann")),
        write("/town", "ann", join("/town", "ann", other)),
        write("/hall", "", drop("/hall", "")),
        write("/den", "", new_environment("/den", lease=lease)),
        write("/den", "x", join("/den", "x", other)),
        write("/nowhere", "k", put("/nowhere", "k", 1)),
    )
    assert isinstance(stand.do(Op("/", "", Code.TRANSACT, Transact(writes=writes))).error, NotFound)
    assert len(stand.rows()) == rows
    assert {id_: state.entries for id_, state in living(stand).items()} == {lease: 2, other: 0}
    assert stand.do(get("/town", "ann")).entry.lease == lease
    stand.done(Op("/", "", Code.TRANSACT, Transact(writes=writes[:-1])))
    assert {id_: state.entries for id_, state in living(stand).items()} == {lease: 2, other: 2}
    stand.reopen()
    assert {id_: state.entries for id_, state in living(stand).items()} == {lease: 2, other: 2}


def test_a_transaction_that_fails_forgets_nothing_of_what_it_deleted(stand: Stand) -> None:
    """Holdings drop environments that are gone as they grow; one that may come back is not gone."""
    lease = granted(stand)
    stand.done(new_environment("/hall"), join("/hall", "m", lease))
    rooms = [RegisterEnvironment(Declaration(lease=lease)) for _ in range(100)]
    writes = (
        Write("/hall", "", Code.DELETE_ENVIRONMENT, Delete()),
        *[Write(f"/r{n}", "", Code.REGISTER_ENVIRONMENT, room) for n, room in enumerate(rooms)],
        Write("/nowhere", "k", Code.SET, 1),
    )
    assert isinstance(stand.do(Op("/", "", Code.TRANSACT, Transact(writes=writes))).error, NotFound)
    assert living(stand)[lease].entries == 1
    stand.clock.advance(11)
    assert stand.value("/hall", "m") is NOTHING


def test_what_is_taken_back_is_under_its_lease_again_before_its_environment_is(stand: Stand) -> None:
    lease = granted(stand, 3_600_000)
    for number in range(80):
        stand.done(new_environment(f"/r{number}"))
    members = [join(f"/r{number}", "m", lease) for number in range(80)]
    many = Transact(writes=tuple(Write(op.path, op.key, Code(op.code), op.argument) for op in members))
    stand.done(Op("/", "", Code.TRANSACT, many))
    writes = (
        Write("/r0", "", Code.DELETE_ENVIRONMENT, Delete()),
        Write("/r1", "m", Code.DELETE_ENTRY, Delete()),
        Write("/nowhere", "k", Code.SET, 1),
    )
    assert isinstance(stand.do(Op("/", "", Code.TRANSACT, Transact(writes=writes))).error, NotFound)
    assert living(stand)[lease].entries == 80


def guarded(key: str, test: ConditionTest, operand: int, value: int) -> Op:
    return put("/town", "protected", value, preconditions=(Precondition(test, operand, "/town", key),))


def test_of_two_who_want_a_lock_one_gets_it_and_the_one_who_had_it_is_fenced(stand: Stand) -> None:
    first, second = granted(stand, 2000), granted(stand, 60_000)
    token = stand.do(hold("/town", "lock", first, "first")).written.revision
    assert isinstance(stand.do(hold("/town", "lock", second, "second")).error, AlreadyExists)
    stand.done(
        guarded("lock", ConditionTest.LEASE_OWNER, first, 1), guarded("lock", ConditionTest.CREATED_REVISION, token, 2)
    )
    assert isinstance(stand.do(guarded("lock", ConditionTest.LEASE_OWNER, second, 3)).error, Fenced)
    stand.clock.advance(2.5)
    later = stand.do(hold("/town", "lock", second, "second")).written.revision
    assert later > token, "fencing tokens rise"
    for op in (
        guarded("lock", ConditionTest.LEASE_OWNER, first, 4),
        guarded("lock", ConditionTest.CREATED_REVISION, token, 5),
        guarded("absent", ConditionTest.LEASE_OWNER, first, 6),
        guarded("absent", ConditionTest.CREATED_REVISION, token, 7),
    ):
        error = stand.do(op).error
        assert (type(error), error.reason) == (Fenced, Reason.FENCED)
    assert stand.value("/town", "protected") == 2
    stand.done(guarded("lock", ConditionTest.LEASE_OWNER, second, 8))
    stand.reopen()
    assert isinstance(stand.do(guarded("lock", ConditionTest.LEASE_OWNER, first, 9)).error, Fenced)
    stand.done(guarded("lock", ConditionTest.CREATED_REVISION, later, 10))


def test_a_lock_is_lost_with_its_lease_not_when_it_is_swept(stand: Stand) -> None:
    lease = granted(stand)
    token = stand.do(hold("/town", "lock", lease)).written.revision
    sent = stand.send(
        revoke(lease),
        guarded("lock", ConditionTest.LEASE_OWNER, lease, 1),
        guarded("lock", ConditionTest.CREATED_REVISION, token, 2),
        get("/town", "lock"),
    )
    stand.clock.settle()
    assert isinstance(sent.outcome(3), EntryRead), "the entry was still there"
    assert [type(sent.outcome(index)) for index in (1, 2)] == [Fenced, Fenced]


def test_an_unleased_entry_has_no_owner(stand: Stand) -> None:
    stand.done(put("/town", "plain", 1))
    assert isinstance(stand.do(guarded("plain", ConditionTest.LEASE_OWNER, 0, 1)).error, Fenced)


def test_kinds_of_leased_entries_survive_a_restart_from_the_log_and_from_the_tables(stand: Stand) -> None:
    lease = granted(stand, 60_000)
    stand.done(
        join("/town", "m", lease, 1.5),
        hold("/town", "v", lease, "x"),
        hold("/town", "c", lease, kind=COUNTER),
        hold("/town", "s", lease, kind=STREAM),
        add("/town", "c", 4),
        Op("/town", "s", Code.APPEND, "item"),
    )
    before = {key: stand.do(get("/town", key)).entry for key in "mvcs"}
    assert [before[key].kind for key in "mvcs"] == [MEMBER, VALUE, COUNTER, STREAM]
    assert {entry.lease for entry in before.values()} == {lease}
    stand.reopen()
    assert {key: stand.do(get("/town", key)).entry for key in "mvcs"} == before
    stand.stop()
    stand.open()
    assert {key: stand.do(get("/town", key)).entry for key in "mvcs"} == before
    assert living(stand)[lease].entries == 4
