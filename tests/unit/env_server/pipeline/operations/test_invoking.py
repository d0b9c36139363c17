"""Operations: companions, conditions, deadlines, roll-back, and what a behaviour may do wrong."""

from __future__ import annotations

import pytest

from env_server.model.environments import Access, Gate, Grant
from env_server.model.errors import (
    DeadlineExceeded,
    Executed,
    GateClosed,
    InternalError,
    OperationRefused,
    PreconditionFailed,
    Reason,
    WorldError,
)
from env_server.model.frames import Written
from env_server.model.operations import (
    BeginGeneration,
    Code,
    Delete,
    EnvironmentUpdate,
    Precondition,
    Write,
)
from env_server.model.operations import (
    Test as ConditionTest,
)
from env_server.model.values import NOTHING, Json
from tests.engine import Op, Sent, Stand, add, get, invoke, make_frame, new_environment, put


def test_an_operation_is_one_revision_with_its_companions(stand: Stand) -> None:
    before = stand.world.revision
    memory = Write("/t", "memory", Code.SET, "I asked")
    sent = stand.do(invoke("/d", "hold", memory, key="k", seconds=1))
    stand.clock.advance(1)
    assert sent.invoked.revision == before + 1 == stand.world.revision
    assert {(row[0], row[2], row[3]) for row in stand.rows()[-2:]} == {
        (before + 1, "/d", "k"),
        (before + 1, "/t", "memory"),
    }
    held = stand.do(invoke("/d", "hold", memory, key="k", seconds=1))
    waiting = stand.do(put("/t", "memory", "mine"))
    assert not waiting.done
    stand.clock.advance(1)
    assert held.invoked.revision < waiting.written.revision


def test_a_failing_companion_rolls_everything_back(stand: Stand) -> None:
    absent = Write("/t", "x", Code.DELETE_ENTRY, Delete())
    sent = stand.do(invoke("/d", "hold", absent, key="k"))
    assert sent.error.reason is Reason.ENTRY_NOT_FOUND
    assert stand.value("/d", "k") is NOTHING
    assert stand.do(put("/d", "k", 1)).done


def test_a_right_that_goes_while_an_operation_runs_takes_its_companions_along(stand: Stand) -> None:
    grant = EnvironmentUpdate(set_grants=(Grant("/d", Access.WRITE),))
    taken = EnvironmentUpdate(remove_grants=("/d",))
    frame = make_frame([invoke("/d", "hold", Write("/t", "memory", Code.SET, 1), key="k", seconds=1)])
    frame.groups = ["/d"]
    stand.done(Op("/t", "", Code.UPDATE_ENVIRONMENT, grant))
    sent = stand.resend(Sent(frame))
    stand.done(Op("/t", "", Code.UPDATE_ENVIRONMENT, taken))
    stand.clock.advance(1)
    assert sent.error.reason is Reason.PERMISSION_DENIED
    assert stand.value("/t", "memory") is NOTHING
    assert stand.value("/d", "k") is NOTHING


def test_refusals_drop_what_was_staged_and_free_the_keys(stand: Stand) -> None:
    revision = stand.world.revision
    sent = stand.do(invoke("/d", "refuse"))
    assert isinstance(sent.error, OperationRefused)
    assert sent.error.metadata == {"code": "no", "day": "monday"}
    assert stand.world.revision == revision
    assert stand.do(put("/d", "a", 1)).done


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_a_write_that_was_not_declared_is_a_defect(stand: Stand, seconds: float) -> None:
    sent = stand.do(invoke("/d", "hold", key="undeclared", seconds=seconds))
    stand.clock.advance(2)
    assert isinstance(sent.error, InternalError)
    assert len(sent.error.metadata["incident"]) == 16
    assert stand.do(put("/d", "undeclared", 1)).done


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("nan", Reason.INVALID_VALUE),
        ("big", Reason.INVALID_VALUE),
        ("long", Reason.LIMIT_EXCEEDED),
        ("object", Reason.INTERNAL),
    ],
)
def test_a_behaviour_cannot_store_what_a_client_could_not(stand: Stand, value: str, reason: Reason) -> None:
    assert stand.do(invoke("/d", "put_bad", value=value)).error.reason is reason
    stand.done(put("/d", "bad", "good"))
    stand.reopen()
    assert stand.value("/d", "bad") == "good"


@pytest.mark.parametrize("name", ["bad_targets", "bad_result"])
def test_a_defect_of_a_behaviour_fails_its_op_alone(stand: Stand, name: str) -> None:
    sent = stand.do(put("/t", "a", 1), invoke("/d", name), put("/t", "b", 1), client_id="c", seq=1)
    assert sent.done
    assert isinstance(sent.outcome(1), InternalError)
    assert isinstance(sent.outcome(2), Written)
    assert stand.do(put("/d", "x", 1)).written.version == 1


def test_the_deadline_of_an_operation_rolls_back_and_frees_its_keys(stand: Stand) -> None:
    sent = stand.do(invoke("/d", "hold_all", seconds=10))
    behind = stand.do(put("/d", "x", 1))
    stand.clock.advance(2)
    assert isinstance(sent.error, DeadlineExceeded)
    assert sent.error.executed is Executed.NO
    assert behind.done
    stand.clock.advance(20)
    assert stand.value("/d", "staged") is NOTHING
    assert stand.value("/d", "late") is NOTHING


def test_an_operation_that_resists_its_end_cannot_keep_its_keys(stand: Stand) -> None:
    sent = stand.do(invoke("/d", "stubborn"))
    behind = stand.do(put("/d", "x", 1))
    stand.clock.advance(31)
    assert isinstance(sent.error, DeadlineExceeded)
    assert behind.done


def test_a_callers_deadline_does_not_end_a_started_operation(stand: Stand) -> None:
    sent = stand.send(invoke("/d", "hold", key="a", seconds=5), deadline_s=1.0)
    stand.clock.advance(4)
    assert not sent.done
    stand.clock.advance(2)
    assert sent.invoked.changed


def test_all_conditions_of_an_invoke_are_tested_when_it_starts(stand: Stand) -> None:
    stand.done(Op("/d", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(set_gates=(Gate("g"),))))
    beside = {"generation": 3}
    assert isinstance(stand.do(invoke("/d", "hold", beside=beside, key="k")).error, GateClosed)
    begin = EnvironmentUpdate(begin=BeginGeneration("g"))
    assert stand.done(Op("/d", "", Code.UPDATE_ENVIRONMENT, begin))[0].sequence == 1  # type: ignore[union-attr]
    assert stand.do(invoke("/d", "hold", beside={"generation": 1}, key="k")).done
    assert isinstance(stand.do(invoke("/d", "hold", beside={"version": 1}, key="k")).error, PreconditionFailed)
    version = stand.do(get("/d")).outcome().version  # type: ignore[union-attr]
    assert not isinstance(stand.do(invoke("/d", "hold", beside={"version": version}, key="k")).outcome(), WorldError)
    absent = (Precondition(ConditionTest.ABSENT, key="k"),)
    refused = stand.do(invoke("/d", "hold", beside={"preconditions": absent}, key="k"))
    assert isinstance(refused.error, PreconditionFailed)
    assert stand.value("/d", "k") == 2


def test_arguments_are_checked_before_anything_is_held(stand: Stand) -> None:
    for arguments, field in [({}, "key"), ({"key": "k", "seconds": "soon"}, "seconds"), ({"key": "k", "x": 1}, "x")]:
        error = stand.do(invoke("/d", "hold", **arguments)).error  # type: ignore[arg-type]
        assert error.reason is Reason.INVALID_ARGUMENTS
        assert error.violations[0][0] == field
    assert stand.do(invoke("/d", "absent")).error.reason is Reason.OPERATION_NOT_FOUND
    assert stand.do(invoke("/t", "hold", key="k")).error.reason is Reason.OPERATION_NOT_FOUND
    assert stand.do(invoke("/x", "hold", key="k")).error.reason is Reason.ENVIRONMENT_NOT_FOUND
    assert stand.do(new_environment("/x", kind="unheard-of")).error.reason is Reason.KIND_NOT_FOUND
    assert Json.of({}) == Json(b"{ }")
    assert stand.world._queues.environments == {}


def test_what_waits_in_a_deleted_world_is_told_so(stand: Stand) -> None:
    held = stand.do(invoke("/d", "hold", key="k", seconds=5))
    waiting = stand.do(put("/t", "x", 1), add("/d", "k", 1), client_id="c", seq=1)
    stand.world.delete()
    assert held.error.reason is Reason.WORLD_NOT_FOUND
    assert isinstance(waiting.outcome(0), Written)
    assert waiting.outcome(1).reason is Reason.WORLD_NOT_FOUND  # type: ignore[union-attr]


def test_an_operation_that_returns_after_the_stop_has_no_effect(stand: Stand) -> None:
    held = stand.do(invoke("/d", "hold", key="k", seconds=5))
    clock = stand.clock
    stand.stop()
    clock.advance(10)
    assert not held.done
    stand.open()
    assert stand.value("/d", "k") is NOTHING
