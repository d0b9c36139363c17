"""A world without room: what makes room is let in, alone and together, and nothing else is."""

from __future__ import annotations

import asyncio

import pytest

from env_server.model.errors import Exhausted, Reason
from env_server.model.frames import Transacted
from env_server.model.operations import Code, Delete, Precondition, Transact, Write
from env_server.model.operations import Test as ConditionTest
from env_server.model.values import NOTHING
from tests.engine import Op, Stand, drop, get, new_environment, put
from tests.leased import granted, revoke
from tests.subscribing import Taker, ack, ack_with, look, subscribe

DROP_X = Write("/a", "x", Code.DELETE_ENTRY, Delete())
DROP_CHILD = Write("/a/b", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True))
PUT_Y = Write("/a", "y", Code.SET, 1)
X_IS_THERE = (Precondition(ConditionTest.EXISTS, path="/a", key="x"),)
X_IS_ABSENT = (Precondition(ConditionTest.ABSENT, path="/a", key="x"),)


@pytest.fixture
def stand() -> Stand:
    stand = Stand()
    stand.done(new_environment("/a"), new_environment("/a/b"), put("/a", "x", 1), put("/a/b", "z", 1), subscribe("s"))
    return stand


def fill(stand: Stand) -> None:
    """From now on there is no room."""
    full = Exhausted(Reason.STORAGE_QUOTA, "full", retry_delay_ms=1000)
    stand.world._admission.refusal = lambda ops, size: full  # type: ignore[method-assign]


def transact(*writes: Write, when: tuple[Precondition, ...] = (), otherwise: tuple[Write, ...] = ()) -> Op:
    return Op("/", "", Code.TRANSACT, Transact(when, writes, otherwise))


def test_a_transaction_that_only_makes_room_is_let_in(stand: Stand) -> None:
    fill(stand)
    (outcome,) = stand.done(transact(DROP_X, DROP_CHILD, when=X_IS_THERE))
    assert isinstance(outcome, Transacted)
    assert stand.value("/a", "x") is NOTHING
    assert stand.do(get("/a/b", "z")).error.reason is Reason.ENVIRONMENT_NOT_FOUND
    (outcome,) = stand.done(transact(when=X_IS_ABSENT))
    assert isinstance(outcome, Transacted), "it only tests"


def test_a_transaction_that_also_writes_is_refused_whole_in_either_branch(stand: Stand) -> None:
    fill(stand)
    before = stand.world.revision
    for refused in (
        transact(DROP_X, PUT_Y),
        transact(PUT_Y),
        transact(DROP_X, when=X_IS_THERE, otherwise=(PUT_Y,)),
        transact(PUT_Y, when=X_IS_ABSENT, otherwise=(DROP_X,)),
    ):
        assert stand.do(refused).error.reason is Reason.STORAGE_QUOTA
    assert stand.world.revision == before
    assert stand.value("/a", "x") == 1


def test_cursors_move_and_leases_end_without_room(stand: Stand) -> None:
    lease = granted(stand)
    taker = Taker(stand)
    stand.done(put("/a", "k1", 1), put("/a", "k2", 1))
    asyncio.run(taker.take())
    fill(stand)
    (first, *_), (last, *_) = taker.events[0], taker.events[-1]
    stand.done(ack(taker.term, first))
    assert look(stand).cursor == first
    stand.done(ack_with(taker.term, last, drop("/a", "k1")))
    assert look(stand).cursor == last
    assert stand.do(ack_with(taker.term, last, put("/a", "k3", 1))).error.reason is Reason.STORAGE_QUOTA
    stand.done(revoke(lease))
