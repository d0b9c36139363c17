"""Held keys: order behind a behaviour that awaits, bounds, slots, and what waits for all of its keys."""

from __future__ import annotations

from typing import ClassVar

from env_server.model.changes import EventType
from env_server.model.environments import Gate
from env_server.model.errors import (
    DeadlineExceeded,
    Executed,
    NotFound,
    Reason,
)
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
from env_server.model.values import NOTHING
from tests.engine import Op, Stand, add, drop, get, invoke, new_environment, put
from tests.unit.env_server.pipeline.operations.desk import Desk


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
    assert Desk.running.peak == 2
    assert few.do(invoke("/d", "hold", key="k9", seconds=1)).error.reason is Reason.QUEUE_FULL
    few.clock.advance(1)
    assert [sent.done for sent in calls] == [True, True, False, False, False]
    few.clock.advance(2)
    assert all(sent.done for sent in calls)
    assert Desk.running.peak == 2


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
    assert Desk.running.peak == 2
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
