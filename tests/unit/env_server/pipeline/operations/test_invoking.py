"""Held keys: order behind a behaviour that awaits, bounds, deadlines, roll-back, and what a behaviour may do wrong."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.model.changes import EventType
from env_server.model.environments import Access, Gate, Grant
from env_server.model.errors import (
    DeadlineExceeded,
    Executed,
    GateClosed,
    InternalError,
    NotFound,
    OperationRefused,
    PreconditionFailed,
    Reason,
    WorldError,
)
from env_server.model.frames import Written
from env_server.model.limits import Limits
from env_server.model.operations import (
    BeginGeneration,
    Code,
    Delete,
    EnvironmentUpdate,
    Precondition,
    Transact,
    Write,
)
from env_server.model.operations import (
    Test as ConditionTest,
)
from env_server.model.values import NOTHING, Json
from tests.engine import Op, Sent, Stand, add, drop, get, invoke, make_frame, new_environment, put


class Desk(Behaviour):
    """Operations of all manners."""

    kind: ClassVar[str] = "desk"
    concurrency_max: ClassVar[int] = 0
    running = 0
    running_peak = 0

    @operation(writes=lambda path, key, seconds=0.0: [Target(path, key)])
    async def hold(self, ctx: Context, key: str, seconds: float = 0.0) -> str:
        Desk.running += 1
        Desk.running_peak = max(Desk.running_peak, Desk.running)
        try:
            await ctx.sleep(seconds)
        finally:
            Desk.running -= 1
        ctx.append("log", "never") if key == "undeclared" else ctx.add(key, 1)
        return key

    @operation(timeout_s=2.0)
    async def hold_all(self, ctx: Context, seconds: float = 1.0) -> None:
        ctx.set("staged", 1)
        await ctx.sleep(seconds)
        ctx.set("late", 1)

    @operation(writes=lambda path: [Target(path, "a"), Target(path, "b")])
    async def refuse(self, ctx: Context) -> None:
        ctx.set("a", 1)
        await ctx.breathe()
        ctx.refuse("no", "not today", day="monday")

    @operation(writes=lambda path, value: [Target(path, "bad")])
    async def put_bad(self, ctx: Context, value: str) -> None:
        ctx.set("bad", {"nan": float("nan"), "big": 2**70, "object": object(), "long": "x" * (1 << 20) + "x"}[value])

    @operation(writes=lambda path: [Target(path, 1 / 0)])
    async def bad_targets(self, ctx: Context) -> None: ...

    @operation()
    async def bad_result(self, ctx: Context) -> Any:
        ctx.set("x", 1)
        return {1, 2}

    @operation()
    async def stubborn(self, ctx: Context) -> None:
        try:
            await ctx.sleep(100)
        finally:
            await ctx.sleep(100)

    @operation(reads_only=True)
    async def look(self, ctx: Context) -> Any:
        return ctx.get("x")


@pytest.fixture
def stand() -> Stand:
    stand = Stand(Desk(), limits=Limits(operation_timeout_s=30.0))
    stand.done(new_environment("/d", kind="desk"), new_environment("/e", kind="desk"), new_environment("/t"))
    Desk.running = Desk.running_peak = 0
    return stand


def test_writes_behind_a_holder_wait_in_order_and_reads_do_not(stand: Stand) -> None:
    holder = stand.do(invoke("/d", "hold", key="k", seconds=5))
    writes = [stand.do(add("/d", "k", 10**number)) for number in range(1, 4)]
    read = stand.do(get("/d", "k"))
    assert isinstance(read.outcome(), NotFound)
    assert not any(sent.done for sent in (holder, *writes))
    other = stand.do(put("/d", "other", 1))
    assert other.done
    stand.clock.advance(5)
    assert [sent.written.value for sent in writes] == [11, 111, 1111]
    revisions = [holder.invoked.revision, *(sent.written.revision for sent in writes)]
    assert revisions == sorted(revisions)
    assert stand.value("/d", "k") == 1111


def test_a_whole_environment_is_held_exclusively_and_in_its_turn(stand: Stand) -> None:
    first = stand.do(invoke("/d", "hold", key="a", seconds=1))
    whole = stand.do(invoke("/d", "hold_all", seconds=1))
    behind = stand.do(put("/d", "b", 1))
    elsewhere = stand.do(put("/e", "b", 1))
    assert elsewhere.done
    stand.clock.advance(1)
    assert first.done
    assert not whole.done
    assert not behind.done
    stand.clock.advance(1)
    assert whole.done
    assert behind.done
    assert whole.invoked.revision < behind.written.revision
    assert stand.value("/d", "late") == 1


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


def test_a_callers_deadline_takes_its_op_out_of_the_queue(stand: Stand) -> None:
    holder = stand.do(invoke("/d", "hold", key="a", seconds=10))
    whole = stand.send(invoke("/d", "hold_all"), deadline_s=1.0)
    behind = stand.send(put("/d", "b", 1))
    stand.clock.advance(0.9)
    assert not behind.done
    stand.clock.advance(0.2)
    assert isinstance(whole.error, DeadlineExceeded)
    assert whole.error.executed is Executed.NO
    assert behind.done, "what waited only for the op that gave up goes on by itself"
    stand.clock.advance(10)
    assert holder.done
    assert stand.value("/d", "staged") is NOTHING


def test_a_callers_deadline_does_not_end_a_started_operation(stand: Stand) -> None:
    sent = stand.send(invoke("/d", "hold", key="a", seconds=5), deadline_s=1.0)
    stand.clock.advance(4)
    assert not sent.done
    stand.clock.advance(2)
    assert sent.invoked.changed


def test_waiting_ops_are_bounded(stand: Stand) -> None:
    few = Stand(Desk(), limits=Limits(queue_ops_max=3))
    few.done(new_environment("/d", kind="desk"))
    few.do(invoke("/d", "hold", key="k", seconds=5))
    waiting = [few.do(add("/d", "k", 1)) for _ in range(3)]
    for op in (add("/d", "k", 1), invoke("/d", "hold", key="k")):
        refused = few.do(op)
        assert refused.error.reason is Reason.QUEUE_FULL
        assert refused.error.retry_delay_ms > 0
        assert refused.error.metadata["limit"] == "queue_ops_max"
    assert few.do(put("/d", "free", 1)).done
    few.clock.advance(6)
    assert [sent.written.value for sent in waiting] == [2, 3, 4]


def test_operations_beyond_max_concurrency_wait_for_a_slot_within_bounds(stand: Stand) -> None:
    few = Stand(Desk(), limits=Limits(concurrency_max=2, queue_ops_max=3))
    few.done(new_environment("/d", kind="desk"))
    calls = [few.do(invoke("/d", "hold", key=f"k{number}", seconds=1)) for number in range(5)]
    assert Desk.running_peak == 2
    assert few.do(invoke("/d", "hold", key="k9", seconds=1)).error.reason is Reason.QUEUE_FULL
    few.clock.advance(1)
    assert [sent.done for sent in calls] == [True, True, False, False, False]
    few.clock.advance(2)
    assert all(sent.done for sent in calls)
    assert Desk.running_peak == 2


def test_an_op_that_waits_for_a_slot_leaves_at_its_callers_deadline(stand: Stand) -> None:
    few = Stand(Desk(), limits=Limits(concurrency_max=1))
    few.done(new_environment("/d", kind="desk"))
    few.do(invoke("/d", "hold", key="a", seconds=5))
    waiting = few.send(invoke("/d", "hold", key="b"), deadline_s=1.0)
    behind = few.send(put("/d", "b", 1))
    few.clock.advance(2)
    assert isinstance(waiting.error, DeadlineExceeded)
    assert behind.done
    few.clock.advance(5)
    assert few.do(invoke("/d", "hold", key="c")).done


def test_concurrency_max_of_a_kind_counts_for_each_environment(stand: Stand) -> None:
    class Narrow(Desk):
        kind: ClassVar[str] = "narrow"
        concurrency_max: ClassVar[int] = 1

    narrow = Stand(Narrow())
    narrow.done(new_environment("/a", kind="narrow"), new_environment("/b", kind="narrow"))
    calls = [
        narrow.do(invoke(path, "hold", key=f"k{number}", seconds=1)) for number in range(2) for path in ("/a", "/b")
    ]
    assert Desk.running_peak == 2
    narrow.clock.advance(1)
    assert [sent.done for sent in calls] == [True, True, False, False]
    narrow.clock.advance(1)
    assert all(sent.done for sent in calls)


def test_a_session_reads_its_own_write_also_when_that_waits(stand: Stand) -> None:
    stand.do(invoke("/d", "hold", key="k", seconds=5))
    write = stand.do(put("/t", "x", 1), add("/d", "k", 10), client_id="c", seq=1)
    same_frame = stand.do(add("/d", "k", 100), get("/d", "k"), client_id="c", seq=2)
    later_frame = stand.do(get("/d", "k"), client_id="c", seq=3)
    stranger = stand.do(get("/d", "k"), client_id="other", seq=1)
    other_key = stand.do(get("/t", "x"), client_id="c", seq=4)
    assert write.parts[0].pending == [1]
    assert same_frame.parts[0].pending == [0, 1]
    assert later_frame.parts[0].pending == [0]
    assert stranger.done
    assert other_key.done
    stand.clock.advance(5)
    assert same_frame.outcome(1).entry.value == 111  # type: ignore[union-attr]
    assert later_frame.entry.value == 111


def test_a_transaction_waits_for_all_of_its_keys_and_blocks_them(stand: Stand) -> None:
    stand.do(invoke("/d", "hold", key="a", seconds=5))
    both = Transact(writes=(Write("/d", "a", Code.ADD, 10), Write("/d", "b", Code.ADD, 10)))
    transaction = stand.do(Op("/", "", Code.TRANSACT, both))
    behind = stand.do(add("/d", "b", 100))
    assert not transaction.done
    assert not behind.done
    stand.clock.advance(5)
    assert transaction.done
    assert stand.value("/d", "a") == 11
    assert stand.value("/d", "b") == behind.written.value == 110


def test_a_transaction_with_a_recursive_deletion_over_held_keys_is_refused(stand: Stand) -> None:
    stand.do(invoke("/d", "hold", key="a", seconds=5))
    recursive = Write("/d", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True))
    put_elsewhere = Write("/t", "x", Code.SET, 1)
    condition = (Precondition(ConditionTest.EXISTS, path="/t", key="absent"),)
    for transaction in (
        Transact(writes=(put_elsewhere, recursive)),
        Transact(condition, (put_elsewhere,), (recursive,)),
    ):
        refused = stand.do(Op("/", "", Code.TRANSACT, transaction))
        assert refused.error.reason is Reason.KEYS_HELD
        assert refused.error.metadata["path"] == "/d"
        assert refused.error.retry_delay_ms > 0
    assert stand.value("/t", "x") is NOTHING
    elsewhere = Write("/t", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True))
    waits = stand.do(Op("/", "", Code.TRANSACT, Transact(writes=(elsewhere, Write("/d", "a", Code.ADD, 10)))))
    assert not waits.done, "what it deletes is held by nobody"
    stand.clock.advance(5)
    assert waits.done
    assert stand.done(Op("/", "", Code.TRANSACT, Transact(writes=(recursive,))))


def test_a_recursive_deletion_over_held_keys_is_refused_and_a_plain_one_waits(stand: Stand) -> None:
    stand.do(invoke("/d", "hold", key="a", seconds=5))
    refused = stand.do(Op("/d", "", Code.DELETE_ENVIRONMENT, Delete(recursive=True)))
    assert refused.error.reason is Reason.KEYS_HELD
    assert refused.error.retry_delay_ms > 0
    node = stand.world._tree.nodes.find("/d")
    assert refused.error.metadata == {"path": "/d", "version": str(node.version), "revision": str(node.modified)}
    waits = stand.do(drop("/d", ""))
    invoked = stand.do(invoke("/d", "look"), invoke("/d", "hold", key="z"))
    written = stand.do(put("/d", "b", 1))
    stand.clock.advance(6)
    assert waits.written.changed
    assert isinstance(written.error, NotFound)
    assert isinstance(invoked.outcome(1), NotFound)
    assert isinstance(invoked.outcome(0), (NotFound, type(invoked.outcome(0))))
    assert stand.do(get("/d")).error.reason is Reason.ENVIRONMENT_NOT_FOUND


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


def test_a_gates_deadline_waits_for_whoever_holds_the_environment(stand: Stand) -> None:
    stand.done(
        Op("/d", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(set_gates=(Gate("g", deadline_ms=500),))),
        Op("/d", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(begin=BeginGeneration("g"))),
    )
    held = stand.do(invoke("/d", "hold_all", seconds=1))
    stand.clock.advance(0.9)
    assert not any(row[1] == EventType.GATE_OPENED for row in stand.rows())
    stand.clock.advance(0.2)
    opened = [row[0] for row in stand.rows() if row[1] == EventType.GATE_OPENED]
    assert opened == [held.invoked.revision + 1]
