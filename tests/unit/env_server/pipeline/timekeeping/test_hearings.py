"""What the participants of a clock hear in the view of a group, as grants come and go."""

from __future__ import annotations

from typing import Any

import pytest

from env_server.model.environments import Access, Declaration, Grant
from env_server.model.errors import Reason
from env_server.model.operations import (
    Code,
    Delete,
    EnvironmentUpdate,
    Precondition,
    RegisterEnvironment,
    Transact,
    Write,
)
from env_server.model.operations import Test as Condition
from env_server.model.timelines import ClockDeclaration, ClockMode
from tests.attended import Worker, held_by, make_town, now_ns, timer
from tests.engine import Op, Stand, drop, new_environment, put

WORKERS = "/town/workers"
READ = (Grant("/g", Access.READ),)
HEARS = {"group": "/g", "hears": [{"path_prefix": "/far"}]}


def grant(path: str, *grants: Grant, take: tuple[str, ...] = ()) -> Op:
    """An op that grants, and takes away."""
    return Op(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(set_grants=grants, remove_grants=take))


def stand_with(*ops: Op) -> tuple[Stand, Worker]:
    """A town with a timer, and a place far away."""
    stand = make_town()
    stand.done(new_environment("/far"), new_environment("/far/hut"), timer("/town", "dawn", 50), *ops)
    return stand, Worker(stand)


def last(stand: Stand, *ops: Op) -> int:
    """Revision of the last of these."""
    return stand.done(*ops)[-1].revision  # type: ignore[union-attr]


def assert_waits(stand: Stand, worker: Worker, joined: int, heard: int) -> None:
    """The clock waits for bob to consume `heard`, then goes."""
    worker.report("bob", joined, consumed_revision=heard - 1)
    assert now_ns(stand) == 0
    worker.report("bob", joined, consumed_revision=heard)
    assert now_ns(stand) == 50 and not worker.voids


@pytest.mark.parametrize("group", ["/g", "*"])
def test_what_is_granted_later_is_heard(group: str) -> None:
    stand, worker = stand_with(grant("/far/hut", *READ))
    bob = worker.join("bob", HEARS)
    assert held_by(stand)[0].startswith("bob: ")
    stand.done(grant("/far", Grant(group, Access.READ)))
    assert_waits(stand, worker, bob, last(stand, put("/far", "news", 1)))


def test_what_was_before_a_grant_may_be_heard_by_a_watch_that_begins_after_it() -> None:
    stand, worker = stand_with(grant("/far/hut", *READ))
    bob = worker.join("bob", {"group": "/g", "hears": [{"path_prefix": "/"}]})
    stand.done(put("/far", "news", 1))
    worker.report("bob", bob, consumed_revision=bob, busy=True)
    assert_waits(stand, worker, bob, last(stand, grant("/far", *READ)))


def test_what_is_withdrawn_is_heard_no_more() -> None:
    stand, worker = stand_with(grant("/far", *READ))
    bob = worker.join("bob", {"group": "/g", "hears": [{"path_prefix": "/"}]})
    taken = last(stand, grant("/far", take=("/g",)))
    stand.done(put("/far", "news", 1))
    assert_waits(stand, worker, bob, taken)


def test_who_may_hear_nothing_any_more_is_told_and_holds_the_clock_until_it_may_again() -> None:
    stand, worker = stand_with(grant("/far", *READ))
    bob = worker.join("bob", HEARS)
    worker.report("bob", bob, busy=True)
    stand.done(grant("/far", take=("/g",)))
    assert [void.error.reason for void in worker.voids] == [Reason.INVALID_VALUE]
    assert "/far" in held_by(stand)[0] and worker.voids[0].error.message.find("/far") >= 0
    worker.report("bob", bob)
    assert len(worker.voids) == 2 and now_ns(stand) == 0
    worker.voids.clear()
    assert_waits(stand, worker, bob, last(stand, grant("/far", *READ)))


def test_grants_of_environments_that_are_deleted_and_made_again_count() -> None:
    stand, worker = stand_with(grant("/far", *READ))
    bob = worker.join("bob", {"group": "/g", "hears": [{"path_prefix": "/"}]})
    gone = last(stand, Op("/far", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True)))
    stand.done(new_environment("/far"), put("/far", "news", 1))
    worker.report("bob", bob, consumed_revision=gone, busy=True)
    assert held_by(stand) == ("bob: busy",)
    stand.done(drop("/far", ""))
    stand.done(Op("/far", "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(Declaration(grants=READ))))
    assert_waits(stand, worker, bob, last(stand, put("/far", "news", 2)))


def test_a_grant_that_is_taken_back_with_its_transaction_changes_nothing() -> None:
    stand, worker = stand_with(grant("/far", *READ))
    bob = worker.join("bob", {"group": "/g", "hears": [{"path_prefix": "/"}]})
    for asked in (EnvironmentUpdate(remove_grants=("/g",)), EnvironmentUpdate(set_grants=(Grant("*", Access.WRITE),))):
        writes = (Write("/far", "", Code.UPDATE_ENVIRONMENT, asked), Write("/nowhere", "x", Code.SET, 1))
        stand.do(Op("/", "", Code.TRANSACT, Transact(writes=writes)))
    heard = last(stand, put("/far", "news", 1))
    stand.done(put("/town", "unheard", 1))
    assert_waits(stand, worker, bob, heard)


def test_grants_to_others_hold_nobody_up() -> None:
    stand, worker = stand_with(grant("/far", *READ))
    bob = worker.join("bob", HEARS)
    worker.report("bob", bob)
    assert now_ns(stand) == 50
    consumed = stand.world.durable_revision
    worker.report("bob", bob, consumed_revision=consumed)
    stand.done(grant("/far", Grant("/h", Access.READ)), grant("/town", *READ), grant("/far/hut", *READ))
    worker.report("bob", bob, consumed_revision=consumed)
    assert held_by(stand) == (f"bob: has consumed {consumed} of {consumed + 3}",), "its own events are heard"


def test_after_a_restart_all_is_heard_as_it_is_granted_then() -> None:
    stand, worker = stand_with()
    bob = worker.join("bob", HEARS)
    stand.done(grant("/far", *READ))
    stand.reopen()
    worker = Worker(stand)
    heard = last(stand, put("/far", "news", 1))
    assert_waits(stand, worker, bob, heard)


@pytest.mark.parametrize("weaker", [(Grant("/g", Access.READ),), ()])
def test_a_group_reports_no_more_where_it_may_write_no_more_or_see_the_clock(weaker: tuple[Grant, ...]) -> None:
    write = Grant("/g", Access.WRITE)
    stand, worker = stand_with(grant(WORKERS, write), grant("/town", *READ))
    bob = worker.join("bob")
    worker.report("bob", bob, group="/g", busy=True)
    assert not worker.voids
    stand.done(grant(WORKERS, *weaker) if weaker else grant("/town", take=("/g",)))
    assert [void.error.reason for void in worker.voids] == [Reason.PERMISSION_DENIED]


def told(stand: Stand, group: str) -> str:
    """What a group is told about who holds the clock."""
    return " ".join(stand.world.timekeeping.see("/town", group).held_by)


@pytest.mark.parametrize(
    ("hears", "is_told"),
    [
        ({"hears": [{"path_prefix": "/far"}]}, False),
        ({"hears": [{"path_prefix": "/town/workers"}, {"path_glob": "/far/*"}]}, False),
        ({"hears": [{"key_glob": "k"}]}, False),
        ({"hears": [{"path_prefix": "/town"}]}, True),
        ({"hears": [{"path_prefix": "/"}], "group": "/g"}, True),
        ({"hears": [{"path_prefix": "/"}], "group": "/far"}, False),
        (None, True),
        ({"hears": []}, True),
    ],
)
def test_who_may_not_see_what_is_heard_is_not_told_how_far_that_is_consumed(hears: Any, is_told: bool) -> None:
    stand, worker = stand_with(grant("/town", *READ))
    bob = worker.join("bob", hears)
    worker.report("bob", bob, consumed_revision=bob - 1)
    stand.done(put("/far", "k", 1), put("/far/hut", "k", 1))
    assert "bob: has consumed " in told(stand, "")
    assert ("bob: has consumed " in told(stand, "/g")) is is_told
    assert ("bob: has not consumed all that it hears" in told(stand, "/g")) is not is_told


def test_who_may_not_see_a_timer_is_not_told_when_a_clock_above_lets_it_come() -> None:
    stand = make_town(lookahead_ns=10)
    stand.done(Op("/", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(clock=ClockDeclaration(ClockMode.MANUAL))))
    stand.done(new_environment("/town/east"), new_environment("/town/west"), timer("/town/west", "secret", 50))
    stand.done(grant(WORKERS, Grant("/town/east", Access.READ)))
    worker = Worker(stand)
    worker.report("bob", worker.join("bob"))
    assert "to 50 ns" in told(stand, "")
    assert "50" not in told(stand, "/town/east") and "does not let it go on" in told(stand, "/town/east")


def test_a_group_without_a_row_is_heard_by_nobody() -> None:
    stand = make_town()
    worker = Worker(stand)
    bob = worker.join("bob", {"hears": [{}]})
    worker.report("bob", bob)
    never = Precondition(Condition.EXISTS, path="/", key="nothing")
    writes = (Write("/town", "x", Code.SET, 1), Write("/", "y", Code.SET, 1, (never,)))
    before = stand.world._tree.changes.number
    stand.do(Op("/", "", Code.TRANSACT, Transact(writes=writes)), client_id="c", seq=1)
    assert stand.world._tree.changes.number == before + 1, "its answer is kept, in a group without a row"
    stand.done(timer("/town", "dawn", 5))
    worker.report("bob", bob)
    assert now_ns(stand) == 5 and not stand.fatal
