"""Frames: answers that grow, repetitions, identities of ops, who caused which row."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import pytest

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.model.entries import COUNTER
from env_server.model.environments import Gate
from env_server.model.errors import (
    Executed,
    Exhausted,
    InternalError,
    InvalidRequest,
    NotFound,
    OutcomeNotKept,
    OutOfRange,
    PreconditionFailed,
    Reason,
    WorldError,
)
from env_server.model.frames import Written
from env_server.model.limits import Limits
from env_server.model.operations import BeginGeneration, Code, Delete, EnvironmentUpdate, OpenGate, RegisterEntry
from env_server.model.values import Json
from tests.engine import Op, Sent, Stand, add, drop, get, invoke, new_environment, put


class Sleeper(Behaviour):
    """Holds a key for some seconds, then sets it."""

    kind: ClassVar[str] = "sleeper"

    @operation(writes=lambda path, key, seconds, value=1: [Target(path, key)])
    async def hold(self, ctx: Context, key: str, seconds: float, value: int = 1) -> Any:
        if seconds:
            await ctx.sleep(seconds)
        ctx.set(key, value)
        return value

    @operation()
    async def hold_all(self, ctx: Context, seconds: float) -> None:
        await ctx.sleep(seconds)


@pytest.fixture
def stand() -> Stand:
    stand = Stand(Sleeper())
    stand.done(new_environment("/s", kind="sleeper"), new_environment("/t"))
    return stand


def test_revisions_and_versions_of_a_frame_follow_from_its_base(stand: Stand) -> None:
    sent = stand.do(put("/t", "a", 1), get("/t", "a"), put("/t", "a", 2), drop("/t", "b"), put("/t", "b", 3))
    base = sent.parts[0].base_revision
    assert [sent.outcome(index) for index in (0, 2, 4)] == [
        Written(base + 1, 1),
        Written(base + 2, 2),
        Written(base + 3, 1),
    ]
    assert isinstance(sent.outcome(3), NotFound)
    assert stand.world.revision == base + 3


def test_an_answer_is_not_sent_before_its_effects_are_durable(stand: Stand) -> None:
    sent = stand.send(put("/t", "a", 1))
    assert sent.parts == []
    while stand.world.durable_revision < stand.world.revision:
        assert sent.parts == []
        stand.clock.step()
    assert sent.done


def test_a_read_and_an_error_wait_for_the_state_they_rest_on(stand: Stand) -> None:
    stand.send(put("/t", "a", 1), drop("/t", "a"))
    read, missing = stand.send(get("/t")), stand.send(get("/t", "a"))
    assert read.parts == missing.parts == []
    stand.clock.settle()
    assert read.done
    assert isinstance(missing.outcome(), NotFound)


def test_the_first_part_never_tells_an_effect_that_is_not_durable_yet(stand: Stand) -> None:
    sent = stand.send(put("/t", "a", 1), invoke("/s", "hold", key="k", seconds=0.000001), client_id="c", seq=1)
    stand.clock.step()  # seals the first group
    first_group = stand.world.revision
    stand.clock._now_ns += 1000  # the operation ends before the first group is durable
    stand.clock._ring()
    assert stand.world.revision == first_group + 1
    seen: list[tuple[int, list[int]]] = []
    while not sent.done:
        stand.clock.step()
        now = stand.world.durable_revision
        seen += [(now, [listed.index for listed in part.outcomes]) for part in sent.parts[len(seen) :]]
    assert seen == [(first_group, []), (first_group + 1, [1])]
    assert sent.parts[0].pending == [1]
    assert sent.parts[0].without_revision == []


def test_a_repeated_frame_returns_its_first_outcome_and_runs_its_reads_again(stand: Stand) -> None:
    ops = (add("/t", "n", 1), get("/t", "n"), get("/t", "missing"), add("/t", "n", 1), drop("/t", "missing"))
    first = stand.do(*ops, client_id="c", seq=1)
    stand.done(put("/t", "missing", 1), add("/t", "n", 10))
    for _ in range(3):
        again = stand.resend(first)
        stand.clock.settle()
        assert again.outcome(0) == first.outcome(0)
        assert again.outcome(3) == first.outcome(3)
        assert again.outcome(1).entry.value == 12  # type: ignore[union-attr]
        assert again.outcome(2).entry.value == 1  # type: ignore[union-attr]
        assert isinstance(again.outcome(4), NotFound)
        assert len(again.parts[0].without_revision) == len(set(again.parts[0].without_revision))
        stand.reopen()
    assert stand.value("/t", "n") == 12


def test_a_repeated_frame_executes_what_a_crash_left_undone(stand: Stand) -> None:
    ops = (put("/t", "a", 1), invoke("/s", "hold", key="k", seconds=5), add("/t", "n", 1))
    first = stand.do(*ops, client_id="c", seq=1)
    assert first.parts[0].pending == [1]
    stand.reopen()
    assert stand.value("/s", "k") is not None
    again = stand.resend(first)
    stand.clock.advance(6)
    assert again.done
    assert stand.value("/s", "k") == 1
    assert stand.value("/t", "n") == 1
    assert again.outcome(0) == first.outcome(0)
    third = stand.resend(first)
    stand.clock.advance(6)
    assert third.outcome(1) == again.outcome(1)
    assert stand.do(get("/s", "k")).entry.version == 1


def test_a_frame_repeated_while_it_waits_is_answered_on_the_new_stream(stand: Stand) -> None:
    first = stand.do(invoke("/s", "hold", key="k", seconds=5), client_id="c", seq=1)
    again = stand.resend(first)
    stand.clock.advance(6)
    assert not first.done
    assert again.done
    assert again.invoked.changed
    assert stand.do(get("/s", "k")).entry.version == 1


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_number_of_another_frame_is_refused(stand: Stand, count: int) -> None:
    """By the count of ops alone: nothing else of a frame is kept."""
    stand.do(put("/t", "a", 1), drop("/t", "missing"), client_id="c", seq=1)
    stand.do(invoke("/s", "hold", key="k", seconds=5), put("/s", "k", 2), client_id="c", seq=2)
    for seq in (1, 2):
        other = stand.do(*[put("/t", "a", 9)] * count, client_id="c", seq=seq)
        assert [getattr(other.outcome(index), "reason", None) for index in range(count)] == [
            Reason.REQUEST_ID_REUSED
        ] * count
    assert stand.value("/t", "a") == 1
    stand.clock.advance(6)
    assert stand.value("/s", "k") == 2


def test_an_acknowledged_frame_is_not_executed_again(stand: Stand) -> None:
    sent = stand.do(add("/t", "n", 1), client_id="c", seq=1)
    stand.world.acknowledge("c", 1)
    again = stand.resend(sent)
    stand.clock.settle()
    assert again.error.reason is Reason.SEQUENCE_PASSED
    assert stand.value("/t", "n") == 1


def test_a_clean_restart_forgets_no_frame_that_nobody_acknowledged(stand: Stand) -> None:
    reads = stand.do(get("/t"), client_id="c", seq=1)
    write = stand.do(add("/t", "n", 1), client_id="c", seq=2)
    stand.stop()
    stand.open()
    for sent in (reads, write):
        again = stand.resend(sent)
        stand.clock.settle()
        assert not isinstance(again.outcome(), WorldError)
    assert stand.value("/t", "n") == 1


@pytest.mark.parametrize("restart", ["none", "crash", "clean"])
@pytest.mark.parametrize(
    "op",
    [
        put("/t", "new", 1.5),
        add("/t", "count", 3),
        add("/t", "double", 0.5),
        Op("/t", "log", Code.APPEND, "x"),
        drop("/t", "old"),
        Op("/t", "fresh", Code.REGISTER_ENTRY, RegisterEntry(COUNTER, 7)),
        Op("/t", "old", Code.REGISTER_ENTRY, RegisterEntry(1, if_absent=True)),
        Op("/t", "nothing", Code.DELETE_ENTRY, Delete(if_present=True)),
        new_environment("/t/child"),
        drop("/u", ""),
        Op("/t", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(set_labels=(("a", "b"),))),
        put("/absent", "a", 1),
        put("/t", "old", 2, version=7),
        Op("/t", "bad", Code.REFUSED, InvalidRequest(Reason.INVALID_VALUE, "x", "is bad")),
    ],
    ids=lambda op: f"{op.code.name} {op.path} {op.key}",
)
def test_a_producers_number_returns_the_first_outcome(stand: Stand, op: Op, restart: str) -> None:
    stand.done(put("/t", "old", 1), new_environment("/u"))
    op = op._replace(producer="agent-7", seq=5)
    first = stand.do(op).outcome()
    revision = stand.world.revision
    if restart == "crash":
        stand.reopen()
    elif restart == "clean":
        stand.stop()
        stand.open()
    again = stand.do(op)
    assert again.is_duplicate()
    assert describe(again) == describe_outcome(first)
    assert stand.world.revision == revision


def test_an_update_of_several_rows_returns_its_last_version_also_after_a_restart(stand: Stand) -> None:
    stand.done(new_environment("/g", gates=(Gate("g"),)))
    stand.done(Op("/g", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(begin=BeginGeneration("g"))))
    both = EnvironmentUpdate(set_labels=(("a", "b"),), open=OpenGate("g", 1))
    op = Op("/g", "", Code.UPDATE_ENVIRONMENT, both, producer="p", seq=1)
    first = stand.do(op, client_id="c", seq=1)
    assert first.written.version == 4
    for _ in range(2):
        assert stand.do(op).outcome() == first.outcome()
        again = stand.resend(first)
        stand.clock.settle()
        assert again.outcome() == first.outcome()
        stand.reopen()


def test_a_number_below_the_last_is_refused_and_changes_nothing(stand: Stand) -> None:
    five = add("/t", "n", 1, producer="p", seq=5)
    stand.done(five)
    for _ in range(2):
        late = stand.do(add("/t", "n", 1, producer="p", seq=3))
        assert isinstance(late.error, OutOfRange)
        assert late.error.reason is Reason.SEQUENCE_PASSED
        assert late.error.metadata["last_seq"] == "5"
        assert stand.do(five).is_duplicate()
        stand.reopen()
    assert stand.value("/t", "n") == 1


def test_an_op_that_ends_after_a_later_number_does_not_set_the_producer_back(stand: Stand) -> None:
    waits = stand.do(invoke("/s", "hold", beside={"producer": "p", "seq": 5}, key="k", seconds=5))
    six = add("/t", "n", 1, producer="p", seq=6)
    stand.done(six)
    stand.clock.advance(6)
    assert waits.done
    for _ in range(2):
        assert stand.do(six).is_duplicate()
        stand.reopen()
    assert stand.value("/t", "n") == 1


def test_a_duplicate_in_flight_joins_and_ends_with_the_first(stand: Stand) -> None:
    op = invoke("/s", "hold", beside={"producer": "p", "seq": 1}, key="k", seconds=5)
    first = stand.do(op)
    joined = [stand.do(op), stand.do(op)]
    twice = stand.do(op, op)
    stand.clock.advance(6)
    assert first.invoked.changed
    for sent in joined:
        assert sent.is_duplicate()
        assert sent.outcome() == first.outcome()
    assert twice.outcome(0) == twice.outcome(1) == first.outcome()
    assert stand.do(get("/s", "k")).entry.version == 1


def test_duplicates_within_one_frame_take_effect_once(stand: Stand) -> None:
    op = add("/t", "n", 1, producer="p", seq=1)
    sent = stand.do(op, op, op)
    assert [sent.is_duplicate(index) for index in range(3)] == [False, True, True]
    assert stand.value("/t", "n") == 1


def test_failures_are_kept_but_not_those_that_pass(stand: Stand) -> None:
    failing = put("/t", "a", 1, producer="p", seq=1, version=9)
    assert isinstance(stand.do(failing).error, PreconditionFailed)
    stand.done(*[put("/t", "a", number) for number in range(9)])
    for _ in range(2):
        assert isinstance(stand.do(failing).error, PreconditionFailed)
        stand.reopen()

    full = Stand(Sleeper(), limits=Limits(queue_ops_max=1))
    full.done(new_environment("/s", kind="sleeper"))
    full.do(invoke("/s", "hold_all", seconds=5))
    full.do(put("/s", "x", 0))
    op = put("/s", "x", 1, producer="p", seq=1)
    refused = full.do(op)
    assert isinstance(refused.error, Exhausted)
    assert refused.error.retry_delay_ms > 0
    full.clock.advance(6)
    assert full.do(op).written.version == 2


def test_refused_identities_are_not_kept(stand: Stand) -> None:
    for name in ("not a name", "x" * 65, "ä"):
        for seq in (1, 2):
            assert stand.do(put("/t", "a", 1, producer=name, seq=seq)).error.reason is Reason.INVALID_FIELD
    assert stand.world._producers.marks == {}
    few = Stand(limits=Limits(producers_max=2))
    few.done(put("/", "a", 1, producer="a", seq=1), put("/", "a", 1, producer="b", seq=1))
    assert few.do(put("/", "a", 1, producer="c", seq=1)).error.reason is Reason.PRODUCER_QUOTA
    few.done(put("/", "a", 1, producer="a", seq=2))
    assert set(few.world._producers.marks) == {"a", "b"}


def test_rows_name_who_caused_them(stand: Stand) -> None:
    stand.do(
        put("/t", "a", 1, producer="p1", seq=3, actor="ann"),
        drop("/t", "missing"),
        put("/t", "b", 1),
        invoke("/s", "hold", beside={"producer": "p2", "seq": 4, "actor": "bob"}, key="k", seconds=1),
        put("/t", "c", 1, producer="p3", seq=1),
        client_id="client",
        seq=9,
    )
    stand.clock.advance(2)
    told = {
        changes.keys[row]: (changes.producers[row], changes.producer_seqs[row], changes.actors[row])
        for changes in stand.records()
        for row in range(len(changes))
        if changes.keys[row]
    }
    assert told == {
        "a": ("p1", 3, "ann"),
        "b": ("client", 9, ""),
        "c": ("p3", 1, ""),
        "k": ("p2", 4, "bob"),
    }


def test_outcomes_too_large_to_be_kept_are_told_as_such_and_nothing_is_done_again() -> None:
    stand = Stand(limits=Limits(session_answers_bytes_max=2_000))
    ops = [put("/", "a", 1), add("/", "n", 1), put("/none", "k" * 100, 1), get("/", "n"), put("/", "b", 1)]
    first = stand.do(*ops, client_id="c", seq=1)
    second = stand.do(*[put("/none", f"{number:0100}", 1) for number in range(20)], client_id="c", seq=2)
    for _ in range(3):
        repeated = stand.resend(first)
        stand.clock.settle()
        for index in (1, 2):
            error = repeated.outcome(index)
            assert isinstance(error, OutcomeNotKept)
            assert error.executed is Executed.UNKNOWN
        assert [repeated.outcome(index) for index in (0, 4)] == [first.outcome(0), first.outcome(4)]
        assert repeated.outcome(3).entry.value == 1, "reads are run again"  # type: ignore[union-attr]
        again = stand.resend(second)
        stand.clock.settle()
        assert all(isinstance(again.outcome(index), OutcomeNotKept) for index in range(20))
        assert stand.do(get("/", "a")).outcome().entry.version == 1  # type: ignore[union-attr]
        stand.reopen()


def test_answers_that_list_too_much_in_one_group_make_further_frames_come_again() -> None:
    stand = Stand(limits=Limits(group_answers_bytes_max=2_000))
    failing = [put("/none", f"{number:0100}", 1) for number in range(20)]
    first = stand.send(*failing, client_id="c", seq=1)
    refused = stand.send(put("/", "a", 1), client_id="c", seq=2)
    stand.clock.settle()
    assert isinstance(first.error, NotFound)
    assert isinstance(refused.error, Exhausted)
    assert refused.error.retry_delay_ms > 0
    assert stand.do(put("/", "a", 1), client_id="c", seq=2).written.version == 1


def test_an_internal_error_is_not_kept(stand: Stand) -> None:
    class Faulty(Behaviour):
        kind: ClassVar[str] = "faulty"
        broken = True

        @operation(writes=lambda path: [Target(path, "k")])
        async def go(self, ctx: Context) -> None:
            if Faulty.broken:
                raise KeyError("ours")
            ctx.set("k", 1)

    faulty = Stand(Faulty())
    faulty.done(new_environment("/f", kind="faulty"))
    op = invoke("/f", "go", beside={"producer": "p", "seq": 1})
    assert isinstance(faulty.do(op).error, InternalError)
    Faulty.broken = False
    assert faulty.do(op).invoked.changed


def describe(sent: Sent) -> object:
    return describe_outcome(sent.outcome())


def describe_outcome(outcome: object) -> object:
    if isinstance(outcome, WorldError):
        return type(outcome), outcome.reason, outcome.message, outcome.metadata
    return outcome


def test_a_kept_failure_holds_nothing_of_its_frame() -> None:
    stand = Stand()
    value = Json(b'"large"')
    held = weakref.ref(value)
    sent = stand.do(put("/absent", "k", value), client_id="c", seq=1)
    assert sent.error.__traceback__ is None
    frame = sent.frame
    del sent, value
    again = stand.resend(Sent(frame))
    stand.clock.settle()
    assert isinstance(again.error, NotFound), "it is kept"
    del again, frame
    assert held() is None
