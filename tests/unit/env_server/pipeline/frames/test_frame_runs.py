"""Frames: answers that grow, failures, who caused which row."""

from __future__ import annotations

import weakref
from typing import ClassVar

import pytest

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.model.errors import (
    Executed,
    Exhausted,
    InternalError,
    NotFound,
    OutcomeNotKept,
    PreconditionFailed,
    Reason,
)
from env_server.model.frames import Written
from env_server.model.limits import Limits
from env_server.model.values import Json
from tests.engine import Sent, Stand, add, drop, get, invoke, new_environment, put
from tests.unit.env_server.pipeline.frames.sleeper import Sleeper


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
