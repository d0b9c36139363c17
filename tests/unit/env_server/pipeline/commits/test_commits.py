"""What a commit group may repeat and look at is counted anew when nothing of it came to be."""

from __future__ import annotations

from env_server.model.environments import Aggregate, Function
from env_server.model.errors import Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.operations import Code, Delete, EnvironmentUpdate, Transact, Write
from env_server.model.values import Json
from tests.engine import Op, Stand, new_environment, put

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
