"""Leases in a world: their time, what is told, what a restart and a stall leave of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from env_server.model.changes import EventType
from env_server.model.entries import COUNTER, STREAM
from env_server.model.environments import Declaration
from env_server.model.errors import (
    Exhausted,
    NotFound,
    Reason,
    WorldError,
    WrongState,
)
from env_server.model.frames import EnvironmentState
from env_server.model.limits import Limits
from env_server.model.operations import Code, RegisterEnvironment
from env_server.model.values import NOTHING
from tests.engine import Op, Stand, add, get, new_environment, put
from tests.leased import ends, events, grant, granted, hold, join, kept, living, revoke


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.done(new_environment("/town"))
    return stand


def test_the_id_of_a_lease_is_the_revision_of_its_grant(stand: Stand) -> None:
    written = stand.do(grant(5000, "worker-1")).written
    revision, type_, path, key, value = stand.rows()[-1]
    assert (revision, type_, path, key) == (written.revision, EventType.LEASE_GRANTED, "/", str(written.revision))
    assert json.loads(value.text) == {"holder": "worker-1", "ttl_ms": 5000}
    state = living(stand)[written.revision]
    assert (state.ttl_ms, state.holder, state.remaining_ms, state.entries) == (5000, "worker-1", 5000, 0)


def test_a_grant_that_is_asked_for_twice_is_given_once(stand: Stand) -> None:
    first = stand.do(grant(producer="p", seq=1))
    again = stand.do(grant(producer="p", seq=1))
    assert again.is_duplicate()
    assert again.written == first.written
    stand.reopen()
    assert stand.do(grant(producer="p", seq=1)).written == first.written
    assert len(living(stand)) == 1
    end = stand.do(revoke(first.written.revision, producer="p", seq=2))
    assert stand.do(revoke(first.written.revision, producer="p", seq=2)).written == end.written


def test_everything_under_a_lease_goes_when_its_time_has_passed(stand: Stand) -> None:
    lease = granted(stand)
    stand.done(
        join("/town", "ann", lease, "hello"),
        hold("/town", "seat", lease, 7),
        hold("/town", "count", lease, kind=COUNTER),
        hold("/town", "log", lease, kind=STREAM),
        Op("/town/room", "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(Declaration(lease=lease))),
        new_environment("/town/room/corner"),
        put("/town/room", "note", 1),
        add("/town", "count", 3),
        Op("/town", "log", Code.APPEND, "x"),
        put("/town", "own", "stays"),
    )
    state = stand.do(get("/town/room")).outcome()
    assert isinstance(state, EnvironmentState)
    assert state.declaration.lease == lease
    assert living(stand)[lease].entries == 5
    assert stand.do(get("/town", "ann")).entry.lease == lease
    stand.clock.advance(9.9)
    assert stand.value("/town", "ann") == "hello"
    stand.clock.advance(0.5)
    assert ends(stand) == [(str(lease), "expired")]
    ended = events(stand, EventType.LEASE_ENDED)[0][0]
    assert [key for _, _, key in events(stand, EventType.MEMBER_EXPIRED)] == ["ann"]
    deleted = events(stand, EventType.ENTRY_DELETED)
    assert sorted(key for _, _, key in deleted) == ["count", "log", "seat"]
    gone = [path for _, path, _ in events(stand, EventType.ENVIRONMENT_DELETED)]
    assert gone == ["/town/room", "/town/room/corner"]
    assert all(revision > ended for revision, _, _ in deleted)
    causes = {
        cause
        for changes in stand.records()
        for revision, cause in zip(changes.revisions, changes.causes, strict=True)
        if revision > ended
    }
    assert causes == {f"lease/{lease}"}
    for again in (False, True):
        if again:
            stand.reopen()
        assert stand.value("/town", "own") == "stays"
        assert [stand.value("/town", key) for key in ("ann", "seat", "count", "log")] == [NOTHING] * 4
        assert isinstance(stand.do(get("/town/room")).error, NotFound)
        assert living(stand) == {}


def test_a_lease_that_is_kept_alive_goes_on(stand: Stand) -> None:
    lease = granted(stand, 2000)
    stand.done(join("/town", "ann", lease))
    for _ in range(10):
        stand.clock.advance(1.9)
        assert kept(stand, lease) == ([lease], [])
    assert stand.do(get("/town", "ann")).entry.version == 1
    stand.clock.advance(2.5)
    assert stand.value("/town", "ann") is NOTHING


def test_keeping_an_ended_lease_is_said_and_makes_no_new_one(stand: Stand) -> None:
    lease = granted(stand, 2000)
    stand.clock.advance(3)
    rows = len(stand.rows())
    assert kept(stand, lease, 12345) == ([], [lease, 12345])
    assert living(stand) == {}
    error = stand.do(join("/town", "ann", lease)).error
    assert (type(error), error.reason) == (WrongState, Reason.LEASE_EXPIRED)
    assert len(stand.rows()) == rows


def test_an_end_is_not_told_before_it_is_durable(stand: Stand) -> None:
    lease = granted(stand)
    stand.send(revoke(lease))
    answers: list[Any] = []
    stand.world.leasing.keep([lease], answers.append)
    assert answers == [], "a crash now would let it live again"
    stand.clock.settle()
    assert answers == [([], [lease])]


def test_each_lease_has_its_full_time_again_after_a_restart(stand: Stand) -> None:
    short, long = granted(stand, 2000), granted(stand, 20_000)
    stand.done(join("/town", "a", short), join("/town", "b", long))
    stand.clock.advance(1.9)
    stand.reopen()
    stand.clock.advance(1.9)
    assert set(living(stand)) == {short, long}
    stand.stop()
    stand.open()
    stand.clock.advance(1.9)
    assert set(living(stand)) == {short, long}
    stand.clock.advance(0.6)
    assert set(living(stand)) == {long}


def test_no_lease_ends_by_a_stall(stand: Stand) -> None:
    leases = [granted(stand, 2000) for _ in range(50)]
    stand.done(*[join("/town", f"m{lease}", lease) for lease in leases])
    stand.clock.advance(1)
    stand.clock.stall(6)
    stand.clock.settle()
    assert len(living(stand)) == 50
    assert kept(stand, *leases).kept == leases
    stand.clock.advance(1.9)
    assert events(stand, EventType.MEMBER_EXPIRED) == []
    stand.clock.advance(2)
    assert len(ends(stand)) == 50, "leases still end"


def test_leases_are_bounded_by_name() -> None:
    stand = Stand(limits=Limits(leases_max=2))
    granted(stand)
    lease = granted(stand)
    error = stand.do(grant()).error
    assert isinstance(error, Exhausted)
    assert (error.reason, error.metadata["limit"]) == (Reason.LEASE_QUOTA, "leases_max")
    stand.done(revoke(lease), grant())
    with pytest.raises(WorldError) as asked:
        stand.world.leasing.keep([1, 2, 3], lambda _: None)
    assert asked.value.metadata["limit"] == "leases_max"
