"""Subscriptions of a world: made, sought, acknowledged, deleted, stored; on the stand."""

from __future__ import annotations

import json
import random
import time
import tracemalloc

import pytest

from env_server.model.errors import (
    AlreadyExists,
    DeniedView,
    Exhausted,
    Fenced,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    RevisionCompacted,
    WorldError,
)
from env_server.model.frames import Transacted, Written
from env_server.model.limits import Limits
from env_server.model.operations import Precondition
from env_server.model.operations import Test as Kind
from env_server.model.watching import Filter
from env_server.subscriptions.subscription import Subscription
from tests.engine import Op, Stand, add, new_environment, put
from tests.subscribing import Taker, ack, ack_with, look, seek, subscribe, unsubscribe


def told(stand: Stand) -> list[tuple[int, str, str, object]]:
    """Events of subscriptions: revision, path, name, document."""
    return [(revision, path, key, value.document) for revision, type_, path, key, value in stand.rows() if type_ == 25]


def test_making_seeking_and_deleting_take_a_revision_each_and_are_told() -> None:
    stand = Stand()
    assert stand.done(subscribe("a.b", path_prefix="/town")) == [Written(2, 0)]
    assert stand.done(subscribe("a.b", if_absent=True)) == [Written(2, 0, changed=False)]
    assert look(stand, "a.b").filter == Filter(path_prefix="/town")
    assert stand.done(seek("a.b", 1)) == [Written(3, 0)]
    assert stand.done(unsubscribe("a.b")) == [Written(4, 0)]
    assert told(stand) == [
        (2, "/", "a.b", {"state": "created", "cursor": 2}),
        (3, "/", "a.b", {"state": "sought", "cursor": 0}),
        (4, "/", "a.b", {"state": "deleted", "cursor": 0}),
    ]


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (subscribe("s"), AlreadyExists),
        (subscribe("no/name"), InvalidRequest),
        (subscribe(""), InvalidRequest),
        (subscribe("t", key_glob="[a"), InvalidRequest),
        (subscribe("t", path_prefix="town"), InvalidRequest),
        (subscribe("t", from_revision=1), RevisionCompacted),
        (subscribe("t"), Exhausted),
        (seek("t"), NotFound),
        (seek("s", 1), RevisionCompacted),
        (unsubscribe("t"), NotFound),
        (ack(1, 1, "t"), NotFound),
        (ack(1, 1, "s"), WorldError),
    ],
)
def test_what_is_refused_changes_nothing(op: Op, error: type[WorldError]) -> None:
    stand = Stand(limits=Limits(subscriptions_max=1))
    stand.done(*[put("/", "k", number) for number in range(5)])
    stand.done(put("/", "k", 0))
    stand.done(subscribe("s"))
    stand.world.compact(0, lambda _: None)
    stand.clock.settle()
    before = stand.world.revision, look(stand), len(stand.records())
    assert isinstance(stand.do(op).outcome(), error)
    assert (stand.world.revision, look(stand), len(stand.records())) == before


async def test_a_begin_in_the_past_replays_and_one_in_the_future_waits() -> None:
    stand = Stand()
    stand.done(*[put("/", f"k{number}", 0) for number in range(5)])
    stand.done(subscribe("past", from_revision=4), subscribe("future", from_revision=12, key_glob="k*"))
    past, future = Taker(stand, subscription="past"), Taker(stand, subscription="future")
    await past.take()
    assert past.keys == ["k2", "k3", "k4", "past", "future"]
    await future.take()
    assert future.keys == []
    stand.done(*[put("/", f"k{number}", 0) for number in range(5, 10)])
    await future.take()
    assert [revision for revision, _, _ in future.events] == [12, 13]
    assert look(stand, "future").cursor == 11


async def test_acknowledging_takes_no_revision_makes_no_event_and_is_durable_when_answered() -> None:
    stand = Stand()
    stand.done(subscribe())
    stand.done(put("/", "k", 0))
    taker = Taker(stand)
    await taker.take()
    sent = stand.send(ack(taker.term, 3))
    assert sent.parts == []
    stand.clock.settle()
    assert sent.written == Written(3, 0, changed=False)
    assert stand.world.revision == 3
    assert len(stand.rows()) == 3
    assert stand.log.read(1, 1 << 30)[-1].last_revision == 3
    stand.reopen()
    assert look(stand).cursor == 3


async def test_an_acknowledgement_at_or_below_the_cursor_changes_nothing() -> None:
    stand = Stand()
    stand.done(subscribe())
    stand.done(put("/", "k", 0), put("/", "k", 1))
    taker = Taker(stand)
    await taker.take()
    for revision, cursor in ((3, 3), (3, 3), (2, 3), (4, 4), (0, 4)):
        assert isinstance(taker.stand.do(ack(taker.term, revision)).outcome(), Written)
        assert look(stand).cursor == cursor
    assert isinstance(stand.do(ack(taker.term, 5)).outcome(), InvalidRequest), "it was not delivered"
    assert isinstance(stand.do(ack(0, 4)).outcome(), WorldError)


async def test_acknowledged_in_a_transaction_both_happen_or_neither() -> None:
    stand = Stand()
    stand.done(subscribe(key_glob="k*"))
    stand.done(put("/", "k1", 0), put("/", "k2", 0))
    taker = Taker(stand)
    await taker.take()
    (done,) = stand.done(ack_with(taker.term, 3, add("/", "effects", 1)))
    assert isinstance(done, Transacted)
    assert look(stand).cursor == 3
    never = Op("/", "effects", add("/", "", 1).code, 1, preconditions=(Precondition(Kind.ABSENT),))
    for failing, error in (
        (ack_with(taker.term, 4, add("/", "effects", 1), never), PreconditionFailed),
        (ack_with(taker.term + 1, 4, add("/", "effects", 1)), WorldError),
        (ack_with(taker.term, 5, add("/", "effects", 1)), InvalidRequest),
    ):
        assert isinstance(stand.do(failing).outcome(), error)
        assert look(stand).cursor == 3
        assert look(stand).consumers[0].outstanding_events == 1
        assert stand.value("/", "effects") == 1


async def test_a_transaction_that_fails_after_acknowledging_takes_the_acknowledgement_back() -> None:
    stand = Stand()
    stand.done(subscribe("s", partitions=4), subscribe("t"))
    stand.done(*[put("/", f"k{number}", 0) for number in range(8)])
    takers = [Taker(stand, "a"), Taker(stand, "b"), Taker(stand, "c", "t")]
    for taker in takers:
        await taker.take()
    before = [look(stand, name) for name in "st"], stand.world.revision
    deadlines = [taker.consumer.deadline.due_ns for taker in takers]
    stand.clock.advance(1)
    parts = [ack_with(takers[0].term, revision).argument.writes[0] for revision in (4, 6)]  # type: ignore[attr-defined]
    parts += ack_with(takers[2].term, 9, name="t").argument.writes  # type: ignore[attr-defined]
    parts += ack_with(takers[1].term + 100, 6).argument.writes  # type: ignore[attr-defined]
    failing = ack_with(takers[0].term, 5)
    failing = failing._replace(argument=type(failing.argument)(writes=tuple(parts)))
    records = len(stand.records())
    assert isinstance(stand.do(failing).outcome(), WorldError)
    assert ([look(stand, name) for name in "st"], stand.world.revision) == before
    assert [taker.consumer.deadline.due_ns for taker in takers] == deadlines
    assert len(stand.records()) == records
    stand.reopen()
    assert [look(stand, name).cursor for name in "st"] == [one.cursor for one in before[0]]


async def test_a_repetition_of_an_acknowledging_transaction_is_recognised() -> None:
    """Else whoever asks again after a lost answer would have its effects twice: the acknowledgement is idempotent."""
    stand = Stand()
    stand.done(subscribe(key_glob="k*"))
    stand.done(put("/", "k1", 0))
    taker = Taker(stand)
    await taker.take()
    once = ack_with(taker.term, 2, add("/", "effects", 1))._replace(producer="p", seq=1)
    sent = stand.do(once)
    Taker(stand, "another")  # the first one is fenced by now
    again = stand.do(once)
    assert again.is_duplicate()
    assert again.outcome() == sent.outcome()
    assert stand.value("/", "effects") == 1


@pytest.mark.parametrize("clean", [True, False])
async def test_all_of_it_survives(clean: bool, seed: int) -> None:
    """From the tables and from the log: filters, partitions, cursors that differ, lapses; consumers do not."""
    chance = random.Random(seed)
    stand = Stand()
    for number in range(12):
        asked = {"actor": "me", "labels": {"a": "b"}, "types": frozenset({4, 5})} if number % 2 else {}
        stand.done(subscribe(f"s{number}", partitions=1 + 3 * number, max_lag=400, **asked))
    for round_ in range(6):
        stand.done(*[put("/", f"k{number}", round_) for number in range(20)])
        for number in chance.sample([0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11], 5):
            takers = [Taker(stand, f"c{one}", f"s{number}") for one in range(chance.randrange(1, 4))]
            for taker in takers:
                try:
                    await taker.take()
                except WorldError:  # replaced by the next, of one partition
                    continue
                if taker.through and chance.random() < 0.8:
                    taker.acknowledge(chance.randint(taker.assignments[-1].cursor, taker.through))
            if chance.random() < 0.3:
                takers[-1].leave()
        if round_ == 3:
            stand.done(unsubscribe("s5"), seek("s6", 20))
            stand.stop() if clean else stand.kill()
            stand.open()
    before = [one._replace(consumers=()) for one in stand.world.subscriptions.list()]
    if clean:
        stand.stop()
        stand.open()
    else:
        stand.reopen()
    assert list(stand.world.subscriptions.list()) == before
    assert len(before) == 11
    stand.stop()  # and what was replayed from the log gets into the tables
    stand.open()
    assert list(stand.world.subscriptions.list()) == before
    stored = list(stand.disk.tables["facts"])
    assert not any(b"s5" in key for key in stored)


async def test_a_subscription_that_nobody_consumes_costs_nothing_when_something_is_published() -> None:
    stand = Stand()
    stand.done(*[subscribe(f"s{number}") for number in range(200)])
    before = stand.world.watches.statistics()
    stand.done(put("/", "k", 1))
    after = stand.world.watches.statistics()
    assert (before.watches, after.offers - before.offers) == (0, 0)


async def test_what_makes_room_is_let_in_when_there_is_none() -> None:
    stand = Stand()
    stand.done(subscribe())
    stand.done(put("/", "k", 1))
    taker = Taker(stand)
    await taker.take()
    stand.log.room_bytes = lambda: 100  # type: ignore[method-assign]
    stand.world._admission.look()
    assert isinstance(stand.do(put("/", "k", 2)).outcome(), Exhausted)
    assert isinstance(taker.acknowledge(), Written)
    stand.done(seek())
    stand.done(unsubscribe())


def test_facts_are_json() -> None:
    stand = Stand()
    stand.done(subscribe())
    facts = [fact for record in stand.records() for fact in record.facts]
    assert [fact.key for fact in facts] == ["s", "s/0"]
    assert all(json.loads(fact.value or b"") for fact in facts)


def test_ten_thousand_that_are_idle_cost_a_commit_no_work_each(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand()
    tracemalloc.start()
    try:
        for first in range(0, 10_000, 1000):
            stand.done(*[subscribe(f"s{first + number}", path_prefix="/x") for number in range(1000)])
        bytes_each = tracemalloc.get_traced_memory()[0] / 10_000
    finally:
        tracemalloc.stop()
    assert bytes_each < 4096, "the log and its tables included: they are in memory here"
    assert isinstance(stand.do(subscribe("one-more")).outcome(), Exhausted)
    looks = 0
    cursor = Subscription.cursor.fget
    assert cursor is not None

    def count(self: Subscription) -> int:
        nonlocal looks
        looks += 1
        return cursor(self)  # type: ignore[no-any-return]

    monkeypatch.setattr(Subscription, "cursor", property(count))
    for number in range(100):
        stand.done(put("/", "k", number))
    assert looks <= 300
    begun = time.monotonic()
    stand.reopen()
    assert len(stand.world.subscriptions) == 10_000
    assert time.monotonic() - begun < 20


async def test_one_that_was_made_by_a_group_delivers_what_the_group_may_see() -> None:
    stand = Stand()
    stand.done(new_environment("/a"), new_environment("/b"), subscribe(group="/a"))
    stand.done(put("/a", "mine", 1), put("/b", "theirs", 1), put("/", "above", 1))
    stand.reopen()
    taker = Taker(stand)
    await taker.take()
    assert taker.keys == ["mine", "above"]
    denied = Taker(stand, subscription="s", name="c")
    stand.done(unsubscribe(), subscribe(group="/a", path_prefix="/b"))
    with pytest.raises(WorldError):
        await denied.take()
    denied = Taker(stand)
    with pytest.raises(DeniedView):
        await denied.take()


async def test_acknowledgements_among_the_writes_of_a_frame_take_no_revision() -> None:
    stand = Stand()
    stand.done(subscribe(key_glob="k*"))
    stand.done(put("/", "k1", 0), put("/", "k2", 0))
    taker = Taker(stand)
    await taker.take()
    sent = stand.do(
        add("/", "n", 1),
        ack(taker.term, 3),
        add("/", "n", 1),
        ack(taker.term + 5, 4),
        ack(taker.term, 4),
        add("/", "n", 1),
    )
    outcomes = [sent.outcome(index) for index in range(6)]
    assert [one.revision for one in outcomes if isinstance(one, Written) and one.changed] == [5, 6, 7]
    assert isinstance(outcomes[3], Fenced)
    assert (look(stand).cursor, stand.value("/", "n")) == (4, 3)
