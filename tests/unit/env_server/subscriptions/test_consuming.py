"""Consumers come, are replaced, fenced, and go; on the stand."""

from __future__ import annotations

import pytest

from env_server.model.errors import Exhausted, Fenced, InvalidRequest, NotFound
from env_server.model.frames import Written
from env_server.model.limits import Limits
from tests.engine import Stand, put
from tests.subscribing import Taker, look, seek, subscribe, unsubscribe


def make(partitions: int = 1, **asked: int) -> Stand:
    stand = Stand(limits=Limits(consumers_per_subscription_max=4))
    stand.done(subscribe(partitions=partitions, ack_timeout_ms=10_000, **asked))  # type: ignore[arg-type]
    return stand


def write(stand: Stand, count: int, first: int = 0) -> list[str]:
    keys = [f"k{number}" for number in range(first, first + count)]
    stand.done(*[put("/", key, 0) for key in keys])
    return keys


async def fails(taker: Taker, error: type[Exception] = Fenced) -> None:
    with pytest.raises(error):
        await taker.take()


async def test_what_is_not_acknowledged_is_delivered_again_to_whoever_comes_next() -> None:
    stand = make()
    first = Taker(stand)
    keys = write(stand, 5)
    await first.take()
    assert first.keys == keys
    first.acknowledge(first.events[1][0])
    first.leave()
    await fails(first)
    second = Taker(stand, "another")
    await second.take()
    assert second.keys == keys[2:]
    assert second.term > first.term


async def test_the_newest_replaces_the_one_before_whose_late_acknowledgement_is_fenced() -> None:
    stand = make()
    old = Taker(stand, "one")
    write(stand, 3)
    await old.take()
    new = Taker(stand, "two")
    assert isinstance(old.acknowledge(), Fenced)
    await fails(old)
    await new.take()
    assert len(new.events) == 3
    fenced = old.acknowledge()
    assert isinstance(fenced, Fenced)
    current = {"version": str(new.term), "revision": str(look(stand).cursor)}
    assert fenced.metadata == {"subscription": "s", "term": str(old.term), **current}
    assert look(stand).cursor == new.assignments[0].cursor
    assert [one.name for one in look(stand).consumers] == ["two"]
    old.leave()  # its stream ends last: that must not end the other
    assert isinstance(new.acknowledge(), Written)
    assert look(stand).cursor == stand.world.revision


async def test_a_deadline_that_passes_fences_and_what_was_held_goes_once_to_the_next() -> None:
    stand = make(partitions=2)
    slow, quick = Taker(stand, "slow"), Taker(stand, "quick")
    keys = write(stand, 20)
    await slow.take()
    await quick.take()
    assert sorted(slow.keys + quick.keys) == sorted(keys)
    held = list(slow.keys)
    stand.clock.advance(6)
    assert isinstance(quick.acknowledge(), Written)
    stand.clock.advance(4.1)
    await fails(slow)
    assert isinstance(slow.acknowledge(), Fenced)
    await quick.take()
    assert quick.keys == held, "what was acknowledged is not delivered again"
    for _ in range(5):
        stand.clock.advance(9)
        assert await quick.take() == []
        stand.world.subscriptions.extend("s", quick.term)
    assert isinstance(quick.acknowledge(), Written)
    stand.clock.advance(60)
    assert await quick.take() == [], "nothing is outstanding: no deadline runs"


async def test_one_that_extends_keeps_what_it_holds() -> None:
    stand = make()
    taker = Taker(stand)
    write(stand, 3)
    await taker.take()
    for _ in range(10):
        stand.clock.advance(8)
        stand.world.subscriptions.extend("s", taker.term)
    assert isinstance(taker.acknowledge(), Written)
    with pytest.raises(Fenced):
        stand.world.subscriptions.extend("s", taker.term + 1)
    with pytest.raises(NotFound):
        stand.world.subscriptions.extend("t", taker.term)


async def test_partitions_are_shared_and_those_who_keep_theirs_are_not_disturbed() -> None:
    stand = make(partitions=64)
    takers = {name: Taker(stand, name) for name in "abc"}
    for taker in takers.values():
        await taker.take()
    states = look(stand).consumers
    assert sorted(partition for one in states for partition in one.partitions) == list(range(64))
    assert sorted(len(one.partitions) for one in states) == [21, 21, 22]
    terms = {name: taker.term for name, taker in takers.items()}
    # The same name again: only its own partitions begin anew.
    again = Taker(stand, "b")
    await again.take()
    await fails(takers["b"])
    assert set(again.assignments[-1].partitions) == set(takers["b"].assignments[-1].partitions)
    for name in "ac":
        assert await takers[name].take() == []
        assert takers[name].term == terms[name]


async def test_one_that_leaves_frees_its_partitions_at_once() -> None:
    stand = make(partitions=8)
    one, other = Taker(stand, "one"), Taker(stand, "other")
    keys = write(stand, 50)
    await one.take()
    await other.take()
    one.acknowledge()
    mine = set(one.keys)
    other.leave()
    await one.take()
    assert one.assignments[-1].partitions == tuple(range(8))
    assert set(one.keys) == set(keys) - mine
    one.acknowledge()
    assert look(stand).cursor == stand.world.revision


async def test_one_more_than_there_are_partitions_stands_by() -> None:
    stand = make(partitions=2)
    takers = [Taker(stand, name) for name in "abc"]
    for taker in takers:
        await taker.take()
    assert takers[2].assignments[-1].partitions == ()
    write(stand, 10)
    assert await takers[2].take() == []
    assert takers[2].consumer.mark() == 0
    takers[0].leave()
    await takers[2].take()
    assert len(takers[2].assignments[-1].partitions) == 1
    Taker(stand, "d")
    Taker(stand, "e")
    with pytest.raises(Exhausted):
        Taker(stand, "f")
    with pytest.raises(InvalidRequest):
        Taker(stand, "no such/name")


async def test_seek_begins_anew_under_a_new_term() -> None:
    stand = make()
    taker = Taker(stand)
    keys = write(stand, 4)
    await taker.take()
    taker.acknowledge()
    before = taker.term
    stand.done(seek(from_revision=taker.events[1][0]))
    assert isinstance(taker.acknowledge(), Fenced)
    await taker.take()
    assert taker.term > before
    assert taker.keys[:3] == keys[1:]
    assert [key for _, path, key in taker.events] == [*keys[1:], "s"], "and the event of the seek itself"
    stand.done(seek())
    await taker.take()
    assert taker.events == []
    more = write(stand, 2, 4)
    await taker.take()
    assert taker.keys == more


async def test_deletion_and_the_end_of_the_world_end_consumers() -> None:
    stand = make()
    taker = Taker(stand)
    await taker.take()
    stand.done(unsubscribe())
    await fails(taker, NotFound)
    assert isinstance(taker.acknowledge(1), NotFound)
    taker.leave()
    stand.done(subscribe(partitions=2))
    takers = [Taker(stand, name) for name in "abc"]  # one of them stands by
    for taker in takers:
        await taker.take()
    stand.world.delete()
    for taker in takers:
        await fails(taker, NotFound)


async def test_a_term_is_told_only_when_it_is_durable_and_never_again() -> None:
    stand = make()
    stand.clock.settle()
    told: list[int] = []
    for _ in range(5):
        untold = Taker(stand, "killed")  # a crash before the reservation is durable
        assert untold.consumer.mark() is None
        stand.reopen()
        taker = Taker(stand, "told")
        await taker.take()
        told.append(taker.term)
        stand.reopen()
    assert told == sorted(set(told))
