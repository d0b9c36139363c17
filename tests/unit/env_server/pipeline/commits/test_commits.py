"""What a commit group may repeat and look at; answers ahead of the disk, in order, and never mistaken for history."""

from __future__ import annotations

from typing import Any

from env_server.model.environments import Aggregate, Function
from env_server.model.errors import Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.operations import Code, Delete, EnvironmentUpdate, Transact, Write
from env_server.model.values import Json
from tests.engine import Op, Stand, add, get, make_frame, new_environment, put

AHEAD = Limits(ahead_ms_max=50)
LARGE = Json(b'{"a":"' + b"x" * 600_000 + b'"}')


def test_ops_that_fail_use_up_nothing_that_later_ones_need() -> None:
    stand = Stand()
    stand.done(new_environment("/e"), put("/e", "k", LARGE))
    too_much = Op("/e", "k", Code.MERGE, Json(b'{"b":"' + b"x" * 600_000 + b'"}'))
    for _ in range(100):
        assert stand.do(too_much).error.reason is Reason.LIMIT_EXCEEDED
    stand.done(Op("/e", "k", Code.MERGE, Json(b'{"b":1}')))


def test_deletions_that_are_taken_back_are_bounded_in_a_group_and_not_for_ever() -> None:
    stand = Stand(limits=Limits(group_looks_max=40))
    stand.done(new_environment("/e"), *[new_environment(f"/e/c{number}") for number in range(10)])
    writes = (
        Write("/e", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True)),
        Write("/absent", "k", Code.SET, 1),
    )
    failing = Op("", "", Code.TRANSACT, Transact((), writes, ()))
    sent = stand.do(*[failing] * 10)
    outcomes = [sent.outcome(index) for index in range(10)]
    reasons = [outcome.reason for outcome in outcomes if isinstance(outcome, WorldError)]
    assert reasons == [Reason.ENVIRONMENT_NOT_FOUND] * 4 + [Reason.RATE_LIMITED] * 6
    assert stand.do(failing).error.reason is Reason.ENVIRONMENT_NOT_FOUND
    stand.done(Op("", "", Code.TRANSACT, Transact((), writes[:1], ())))


def test_aggregates_that_come_and_go_are_bounded_in_a_group_and_not_for_ever() -> None:
    stand = Stand(limits=Limits(group_looks_max=40))
    stand.done(new_environment("/e"), *[put("/e", f"k{number}", number) for number in range(20)])
    come = Op("/e", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(set_aggregates=(Aggregate("a", Function.SUM),)))
    go = Op("/e", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(remove_aggregates=("a",)))
    sent = stand.do(come, go, come, come, go)
    refused = [isinstance(sent.outcome(index), WorldError) for index in range(5)]
    assert refused == [False, False, False, False, True], "setting what is there looks at nothing"
    stand.done(go)


def test_an_answer_does_not_wait_for_the_disk_and_events_do() -> None:
    stand = Stand(limits=AHEAD)
    stand.done(new_environment("/e"))
    durable = stand.world.durable_revision
    sent = stand.send(add("/e", "n", 1))
    assert len(sent.parts) == 1
    assert stand.world.durable_revision == durable
    stand.clock.settle()
    assert stand.world.durable_revision == durable + 1


def test_by_default_an_answer_waits() -> None:
    stand = Stand()
    assert stand.send(new_environment("/e")).parts == []


def test_answers_wait_in_order_when_the_disk_does_not_keep_up() -> None:
    stand = Stand(limits=AHEAD)
    stand.done(new_environment("/e"))
    order: list[str] = []
    disk = SlowDisk(stand)
    stand.world.execute(make_frame([add("/e", "n", 1)]), lambda _: order.append("early"))
    stand.clock.settle()
    stand.clock.advance(0.06)
    stand.world.execute(make_frame([add("/e", "n", 1)]), lambda _: order.append("late"))
    stand.world.execute(make_frame([get("/e", "n")]), lambda _: order.append("read"))
    assert order == ["early"]
    disk.go_on()
    stand.clock.settle()
    assert order == ["early", "late", "read"]


def test_what_asks_for_the_disk_gets_it() -> None:
    stand = Stand(limits=AHEAD)
    stand.send(new_environment("/e"))
    seen: list[int] = []
    stand.world.when_seen(lambda: seen.append(stand.world.durable_revision))
    assert seen == []
    stand.clock.settle()
    assert seen == [stand.world.revision]


def test_what_a_crash_took_back_begins_a_new_history() -> None:
    stand = Stand(limits=AHEAD)
    stand.done(new_environment("/e"), add("/e", "n", 1))
    first = stand.world.history
    lost = stand.send(add("/e", "n", 1))
    assert len(lost.parts) == 1
    stand.reopen()
    assert stand.value("/e", "n") == 1
    second = stand.world.history
    assert second != first
    stand.reopen()
    assert stand.world.history not in (first, second)


def test_a_clean_stop_keeps_the_history_and_everything() -> None:
    stand = Stand(limits=AHEAD)
    stand.send(new_environment("/e"), add("/e", "n", 1))
    first = stand.world.history
    stand.stop()
    stand.open()
    assert stand.world.history == first
    assert stand.value("/e", "n") == 1


def test_a_careful_server_after_a_relaxed_one_that_died_begins_a_new_history_once() -> None:
    stand = Stand(limits=AHEAD)
    first = stand.world.history
    stand.kill()
    stand.limits = Limits()
    stand.open()
    second = stand.world.history
    assert second != first
    stand.reopen()
    assert stand.world.history == second


def test_nothing_is_answered_after_a_stop_that_is_not_committed() -> None:
    stand = Stand(limits=AHEAD)
    stand.done(new_environment("/e"))
    stand.world.stop(lambda: None)
    stand.clock.settle()
    assert stand.send(add("/e", "n", 1)).parts == []


class SlowDisk:
    """Keeps back what a world gives to its log."""

    def __init__(self, stand: Stand) -> None:
        self._log = stand.log
        self._append = stand.log.append
        self._held: list[tuple[Any, Any]] = []
        stand.log.append = lambda changes, state: self._held.append((changes, state))  # type: ignore[method-assign]

    def go_on(self) -> None:
        self._log.append = self._append  # type: ignore[method-assign]
        for changes, state in self._held:
            self._append(changes, state)
