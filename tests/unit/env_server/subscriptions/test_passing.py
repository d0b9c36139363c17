"""Cursors of consumers for whom nothing comes move by themselves, seldom, and never past what somebody holds."""

from __future__ import annotations

import random

from env_server.model.changes import FactKind
from env_server.model.frames import Written
from env_server.subscriptions.passing import _REVISIONS
from tests.engine import Stand, put
from tests.subscribing import Taker, look, seek, subscribe


def write(stand: Stand, groups: int, size: int = 1) -> None:
    for _ in range(groups):
        stand.done(*[put("/", "k", 0)] * size)


def compact(stand: Stand) -> int:
    left: list[int] = []
    stand.world.compact(0, left.append)
    stand.clock.settle()
    assert left == [stand.log.first_revision]
    return left[0]


def moves(stand: Stand) -> int:
    """Facts of cursors, of those that are retained."""
    return sum(
        fact.kind == FactKind.SUBSCRIPTION and fact.key == "s/0" for one in stand.records() for fact in one.facts
    )


async def test_a_cursor_behind_which_nothing_matched_moves_now_and_then() -> None:
    stand = Stand()
    stand.done(subscribe(key_glob="wanted"))
    taker = Taker(stand)
    await taker.take()
    noted, begin = moves(stand), look(stand).cursor
    write(stand, _REVISIONS // 500 - 1, 500)
    assert (look(stand).cursor, moves(stand)) == (begin, noted)
    write(stand, 2 * _REVISIONS // 500, 500)
    assert stand.world.revision - look(stand).cursor < _REVISIONS
    assert moves(stand) <= noted + 3
    cursor = look(stand).cursor
    stand.reopen()
    assert look(stand).cursor == cursor


async def test_nothing_that_matches_is_passed_over() -> None:
    chance = random.Random(11)
    stand = Stand()
    stand.done(subscribe(key_glob="wanted", max_lag=40), subscribe("shared", partitions=3, max_lag=40))
    wanted: list[int] = []
    heard: list[int] = []
    taker = Taker(stand)
    for _ in range(300):
        for _ in range(chance.randrange(6)):
            key = "wanted" if chance.random() < 0.1 else f"k{chance.randrange(9)}"
            revision = stand.done(put("/", key, 0))[0].revision  # type: ignore[union-attr]
            if key == "wanted":
                wanted.append(revision)
        if chance.random() < 0.1:
            compact(stand)
        if chance.random() < 0.05:
            stand.reopen()
            taker = Taker(stand)
        await taker.take()
        if taker.events:
            assert look(stand).cursor < taker.events[0][0], "passed over what it holds"
            heard += [revision for revision, _, _ in taker.events]
            assert isinstance(taker.acknowledge(taker.events[-1][0]), Written)
            taker.events = []
    assert not look(stand).lapsed
    assert look(stand, "shared").lapsed, "nobody consumes it"
    assert heard == wanted


async def test_compaction_asks_first() -> None:
    stand = Stand()
    stand.done(subscribe(key_glob="wanted"), subscribe("t", key_glob="wanted"))
    taker, other = Taker(stand), Taker(stand, subscription="t")
    await taker.take()
    await other.take()
    write(stand, 50)
    await taker.take()
    await other.take()
    assert compact(stand) == stand.world.revision
    stand.done(put("/", "wanted", 1))
    held = stand.world.revision
    write(stand, 50)
    await taker.take()
    await other.take()
    assert compact(stand) == held, "both hold it"
    assert isinstance(taker.acknowledge(held), Written)
    assert compact(stand) == held
    other.leave()
    stand.done(seek("t"))
    sought = look(stand, "t").cursor
    write(stand, 50)
    assert compact(stand) == sought + 1, "nobody consumes t"


async def test_a_stop_in_the_middle_of_a_compaction_answers_it() -> None:
    stand = Stand()
    stand.done(subscribe(key_glob="wanted"))
    taker = Taker(stand)
    await taker.take()
    write(stand, 50)
    await taker.take()
    left: list[int] = []
    stand.world.compact(0, left.append)
    stand.stop()
    assert len(left) == 1


async def test_shares_pass_one_by_one() -> None:
    stand = Stand()
    stand.done(subscribe(partitions=8, max_lag=30))
    takers = [Taker(stand, name) for name in "abc"]
    for _ in range(40):
        stand.done(put("/", "k", 0))  # of one of them
        for taker in takers:
            await taker.take()
            if taker.events:
                assert isinstance(taker.acknowledge(taker.events[-1][0]), Written)
    assert not look(stand).lapsed
    assert len([taker for taker in takers if taker.events]) == 1
