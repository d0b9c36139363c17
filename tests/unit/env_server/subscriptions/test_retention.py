"""What the log keeps for the sake of subscriptions, and who stays too far behind; on the stand."""

from __future__ import annotations

import random

import pytest

from env_server.model.errors import InvalidRequest, OutOfRange, Reason, RevisionCompacted, WorldError
from env_server.model.frames import Written
from env_server.model.limits import MIB, Limits
from env_server.subscriptions.retention import find_bytes_max
from tests.engine import Stand, put
from tests.subscribing import Taker, ack, look, seek, subscribe, unsubscribe


def write(stand: Stand, count: int) -> None:
    for _ in range(count):  # one group each
        stand.done(put("/", "k", 0))


def compact(stand: Stand) -> int:
    """Lets the log forget all it may; the oldest revision that is left."""
    left: list[int] = []
    stand.world.compact(0, left.append)
    stand.clock.settle()
    assert left == [stand.log.first_revision]
    return left[0]


def lapses(stand: Stand) -> list[tuple[str, str]]:
    """What the events of subscriptions tell, as far as they are retained."""
    return [(key, value.document["state"]) for _, type_, _, key, value in stand.rows() if type_ == 25]


async def test_the_log_is_kept_exactly_from_the_cursor_on() -> None:
    stand = Stand()
    write(stand, 5)
    stand.done(subscribe())
    write(stand, 10)
    taker = Taker(stand)
    await taker.take()
    begin = look(stand).cursor
    assert compact(stand) == begin + 1
    for revision in range(begin + 1, stand.world.revision + 1):
        taker.acknowledge(revision)
        assert compact(stand) == min(revision + 1, stand.world.revision)
    stand.done(unsubscribe())
    assert compact(stand) == stand.world.revision


async def test_the_lowest_of_all_that_live_counts() -> None:
    stand = Stand()
    write(stand, 5)
    stand.done(subscribe("a", from_revision=3), subscribe("b", from_revision=5, partitions=4))
    write(stand, 5)
    assert compact(stand) == 3
    stand.done(seek("a"))
    assert compact(stand) == 5
    stand.done(seek("a", 6))
    stand.done(unsubscribe("b"))
    assert compact(stand) == 6


async def test_a_cursor_that_is_not_durable_lets_nothing_go() -> None:
    """A crash right after the log was cut must find everything after the cursor that is stored."""
    chance = random.Random(7)
    stand = Stand()
    stand.done(subscribe())
    lost = 0
    for _ in range(60):
        write(stand, 3)
        taker = Taker(stand)
        await taker.take()
        if taker.through > taker.assignments[-1].cursor:
            stand.world.compact(0, lambda _: None)
            stand.send(ack(taker.term, chance.randint(taker.assignments[-1].cursor + 1, taker.through)))
            for _ in range(chance.randrange(6)):  # as far as it comes
                stand.clock.step()
                stand.world.compact(0, lambda _: None)
        applied = look(stand).cursor
        stand.reopen()
        cursor = look(stand).cursor
        lost += cursor < applied
        assert not look(stand).lapsed
        assert stand.log.first_revision <= cursor + 1
    assert lost > 5, "no round ended before the acknowledgement was durable"


async def test_one_that_stays_behind_lapses_says_so_and_lets_go() -> None:
    stand = Stand()
    stand.done(subscribe("quick", max_lag=10), subscribe("slow", max_lag=100))
    quick = Taker(stand, subscription="quick")
    await quick.take()
    write(stand, 9)
    assert not look(stand, "quick").lapsed
    write(stand, 2)
    assert look(stand, "quick").lapsed
    with pytest.raises(OutOfRange) as caught:
        await quick.take()
    assert caught.value.reason is Reason.SUBSCRIPTION_LAPSED
    outcome = quick.acknowledge()
    assert isinstance(outcome, WorldError)
    assert outcome.reason is Reason.SUBSCRIPTION_LAPSED
    with pytest.raises(OutOfRange):
        Taker(stand, subscription="quick")
    assert lapses(stand) == [("quick", "created"), ("slow", "created"), ("quick", "lapsed")]
    assert compact(stand) == look(stand, "slow").cursor + 1
    stand.reopen()
    assert look(stand, "quick").lapsed
    assert not look(stand, "slow").lapsed
    refused = stand.do(seek("quick", 1)).error
    assert isinstance(refused, RevisionCompacted)
    assert isinstance(stand.do(seek("quick", stand.world.revision - 9)).error, InvalidRequest), "too far behind"
    stand.done(seek("quick", stand.world.revision - 5))
    back = Taker(stand, subscription="quick")
    await back.take()
    assert isinstance(back.acknowledge(), Written)


async def test_one_that_is_acknowledged_in_time_never_lapses() -> None:
    stand = Stand()
    stand.done(subscribe(max_lag=5))
    taker = Taker(stand)
    for _ in range(30):
        write(stand, 3)
        await taker.take()
        assert isinstance(taker.acknowledge(), Written)
    assert not look(stand).lapsed


async def test_a_quiet_one_moves_on_by_acknowledging_marks() -> None:
    stand = Stand()
    stand.done(subscribe(max_lag=5, key_glob="never"))
    taker = Taker(stand)
    for _ in range(10):
        write(stand, 4)
        await taker.take()
        mark = taker.consumer.mark()
        assert mark == stand.world.revision
        assert isinstance(taker.acknowledge(mark), Written)
    assert look(stand).cursor == stand.world.revision
    taker.leave()
    write(stand, 7)
    assert look(stand).lapsed


KIB = 1024


def write_large(stand: Stand, count: int, key: str = "large") -> None:
    for _ in range(count):
        stand.done(put("/", key, b"x" * 64 * KIB))


def small_stand() -> Stand:
    """One in which a MiB of log is kept for a subscription, and hardly anything without one."""
    return Stand(limits=Limits(subscription_lag_bytes_max=MIB, log_bytes_max=128 * KIB, map_bytes=64 * MIB))


async def test_one_behind_which_too_many_bytes_lie_lapses_says_so_and_lets_go() -> None:
    stand = small_stand()
    stand.done(subscribe("stalled"))
    write_large(stand, 8)
    stand.done(subscribe("later"))
    write_large(stand, 7)
    assert not look(stand, "stalled").lapsed
    write_large(stand, 2)
    assert look(stand, "stalled").lapsed
    assert not look(stand, "later").lapsed, "what is behind it was not looked at alone"
    assert lapses(stand)[-1] == ("stalled", "lapsed")
    with pytest.raises(OutOfRange, match="subscription_lag_bytes_max"):
        Taker(stand, subscription="stalled")
    write_large(stand, 6)
    assert not look(stand, "later").lapsed
    assert stand.log.first_revision > look(stand, "stalled").cursor + 1
    stand.reopen()
    assert look(stand, "stalled").lapsed
    write_large(stand, 10)
    assert look(stand, "later").lapsed, "a restart does not begin to count anew"


async def test_one_that_keeps_up_may_have_any_bytes_behind_it() -> None:
    stand = small_stand()
    stand.done(subscribe())
    taker = Taker(stand)
    for _ in range(60):
        write_large(stand, 1)
        await taker.take()
        assert isinstance(taker.acknowledge(), Written)
    assert not look(stand).lapsed
    write_large(stand, 40)
    assert look(stand).lapsed


async def test_large_values_that_do_not_match_lie_behind_nobody() -> None:
    stand = small_stand()
    stand.done(subscribe(key_glob="wanted"), subscribe("shared", partitions=2))
    taker, one, other = Taker(stand), Taker(stand, "a", "shared"), Taker(stand, "b", "shared")
    for _ in range(4):
        write_large(stand, 10)
        for reader in (one, other):  # all of it is for one of them
            await reader.take()
            if reader.events:
                assert isinstance(reader.acknowledge(), Written)
        await taker.take()
    assert not look(stand).lapsed
    assert not look(stand, "shared").lapsed
    stand.done(put("/", "wanted", 1))
    await taker.take()
    assert taker.keys == ["wanted"]
    write_large(stand, 20)
    assert look(stand).lapsed, "it holds what it has not acknowledged"


def test_a_small_map_bounds_what_is_kept_too() -> None:
    assert find_bytes_max(Limits(map_bytes=64 * MIB)) == 16 * MIB
    assert find_bytes_max(Limits()) == Limits().subscription_lag_bytes_max


async def test_many_that_lapse_together_are_all_told() -> None:
    stand = Stand()
    stand.done(*[subscribe(f"s{number}", max_lag=200) for number in range(150)])
    write(stand, 210)
    assert sum(state == "lapsed" for _, state in lapses(stand)) == 150
    assert all(one.lapsed for one in stand.world.subscriptions.list())


async def test_a_begin_that_the_log_lets_go_in_that_moment_is_found() -> None:
    """A commit under way may trim what nobody had asked to keep when it began."""
    stand = Stand()
    write(stand, 20)
    stand.stop()  # so that nothing but a hold keeps the log
    stand.open()
    stand.send(subscribe(from_revision=stand.log.first_revision))
    stand.log._trimming.retained = None  # as the writer saw it
    stand.log._trimming.compact_below = 15
    stand.clock.settle()
    assert stand.log.first_revision == 15
    assert look(stand).lapsed
