"""Frames that come again: first outcomes, numbers of producers, duplicates in flight, what is kept and what is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from env_server.model.entries import COUNTER
from env_server.model.environments import Gate
from env_server.model.errors import (
    Exhausted,
    InvalidRequest,
    NotFound,
    OutOfRange,
    Reason,
    WorldError,
)
from env_server.model.operations import BeginGeneration, Code, Delete, EnvironmentUpdate, OpenGate, RegisterEntry
from tests.engine import Op, Sent, Stand, add, drop, get, invoke, new_environment, put
from tests.unit.env_server.pipeline.frames.sleeper import Sleeper


@pytest.fixture
def stand() -> Stand:
    stand = Stand(Sleeper())
    stand.done(new_environment("/s", kind="sleeper"), new_environment("/t"))
    return stand


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


def test_what_is_refused_while_a_repeated_frame_waits_is_noted_on_the_new_stream(stand: Stand) -> None:
    first = stand.do(invoke("/s", "tire", seconds=5), client_id="c", seq=1)
    noted: list[str] = []
    first.frame.refused_for_now = lambda: noted.append("old")
    again = stand.resend(Sent(replace(first.frame, refused_for_now=lambda: noted.append("new"))))
    stand.clock.advance(6)
    assert isinstance(again.outcome(0), Exhausted)
    assert noted == ["new"]


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


def describe(sent: Sent) -> object:
    return describe_outcome(sent.outcome())


def describe_outcome(outcome: object) -> object:
    if isinstance(outcome, WorldError):
        return type(outcome), outcome.reason, outcome.message, outcome.metadata
    return outcome
