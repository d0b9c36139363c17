"""Watches of a hub: live, slow, resumed, compacted, future, closed."""

from __future__ import annotations

import asyncio

import pytest

from env_server.events.statistics import WatchState
from env_server.model.changes import Changes, EventType
from env_server.model.errors import InvalidRequest, NotFound, OutOfRange, Reason, Unavailable
from tests.contracts.event_stream import check_event_stream, list_events
from tests.unit.env_server.events.worlds import Row, World, drain, step


async def test_a_watch_from_now_gets_what_comes_and_nothing_before() -> None:
    world = World()
    world.publish()
    watch = world.open()
    world.publish(Row(key="b"), Row(key="c"))
    deliveries = await drain(watch)
    assert [event.key for event in list_events(deliveries[0])] == ["b", "c"]
    assert deliveries[0].rows is None, "a group that matches as a whole is handed out as it is"
    assert check_event_stream(deliveries, world.history, 1) == 3


async def test_a_replay_includes_its_start_and_goes_on_live() -> None:
    world = World()
    for _ in range(5):
        world.publish()
    watch = world.open(3)
    assert watch.state is WatchState.CATCHING_UP
    deliveries = await drain(watch)
    assert watch.state is WatchState.LIVE
    world.publish()
    deliveries += await drain(watch)
    assert check_event_stream(deliveries, world.history, 2) == 6


async def test_a_replay_that_starts_inside_a_group_leaves_out_its_first_revisions() -> None:
    world = World()
    world.publish(Row(key="a"), Row(key="b"), Row(key="c"))
    deliveries = await drain(world.open(2))
    assert [event.revision for event in list_events(deliveries[0])] == [2, 3]


async def test_a_start_in_the_future_waits_and_announces_nothing_before() -> None:
    world = World()
    world.publish()
    watch = world.open(4)
    assert watch.mark() is None
    world.publish(Row(key="2"))
    assert await step(watch) is None
    assert watch.mark() is None
    assert watch.statistics().pending_groups == 0
    world.publish(Row(key="3"), Row(key="4"), Row(key="5"))
    deliveries = await drain(watch)
    assert [event.key for event in list_events(deliveries[0])] == ["4", "5"]
    assert watch.mark() == 5


async def test_a_waiting_reader_is_woken_by_a_publication() -> None:
    world = World()
    watch = world.open()
    reader = asyncio.create_task(watch.next(10), name="reader")
    await asyncio.sleep(0)
    world.publish()
    assert (await reader).through_revision == 1


async def test_a_reader_cancelled_in_the_step_of_a_publication_loses_nothing() -> None:
    world = World()
    watch = world.open()
    reader = asyncio.create_task(watch.next(10), name="reader")
    await asyncio.sleep(0)
    world.publish()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert check_event_stream(await drain(watch), world.history, 0) == 1


async def test_a_reader_cancelled_during_a_read_of_the_log_loses_nothing() -> None:
    world = World(ring_groups=1)
    for _ in range(4):
        world.publish()
    watch = world.open(1)
    world.log_is_open.clear()
    assert await step(watch) is None
    assert world.reads == 1
    world.log_is_open.set()
    assert check_event_stream(await drain(watch), world.history, 0) == 4


async def test_two_readers_of_one_watch_are_refused() -> None:
    world = World()
    watch = world.open()
    reader = asyncio.create_task(watch.next(1), name="reader")
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="another task"):
        await watch.next(1)
    reader.cancel()


async def test_a_slow_watch_falls_back_to_its_cursor_and_comes_live_again_without_gap_or_duplicate() -> None:
    world = World(pending_groups_max=3)
    watch = world.open()
    world.publish()
    deliveries = [await step(watch)]
    for _ in range(10):
        world.publish(Row(), Row())
    assert watch.state is WatchState.CATCHING_UP
    assert watch.statistics().fallbacks == 1
    assert watch.statistics().behind_revisions == 20
    assert watch.mark() is None
    deliveries += await drain(watch, 1)
    assert watch.state is WatchState.LIVE
    assert watch.mark() == world.hub.head == 21
    assert check_event_stream(deliveries, world.history, 0) == 21


async def test_a_watch_whose_pending_groups_left_the_ring_reads_the_log() -> None:
    world = World(ring_groups=2)
    watch = world.open()
    for _ in range(20):
        world.publish()
    assert check_event_stream(await drain(watch), world.history, 0) == 20
    assert watch.statistics().log_reads > 0
    assert world.hub.statistics().backlog_bytes == 0


async def test_a_watch_that_lags_beyond_the_retained_log_ends_with_both_revisions() -> None:
    world = World(ring_groups=2)
    watch = world.open()
    for _ in range(20):
        world.publish()
    world.trim(10)
    with pytest.raises(OutOfRange) as ended:
        await step(watch)
    assert ended.value.reason is Reason.REVISION_COMPACTED
    assert ended.value.metadata == {"asked": "1", "compacted": "10"}
    with pytest.raises(OutOfRange):
        await step(watch)
    assert world.hub.statistics().watches == 0


async def test_a_start_below_the_retained_log_ends_although_the_ring_still_holds_it() -> None:
    world = World()
    for _ in range(5):
        world.publish()
    world.trim(3)
    with pytest.raises(OutOfRange) as ended:
        await step(world.open(2))
    assert ended.value.metadata == {"asked": "2", "compacted": "3"}


@pytest.mark.parametrize("ring_groups", [1, 1000])
async def test_a_deletion_at_the_oldest_retained_revision_is_delivered(ring_groups: int) -> None:
    world = World(ring_groups=ring_groups)
    world.publish()
    world.publish(Row(type=EventType.ENTRY_DELETED))
    world.publish()
    world.trim(2)
    deliveries = await drain(world.open(2, types=frozenset({EventType.ENTRY_DELETED})))
    assert [event.revision for event in list_events(deliveries[0])] == [2]


async def test_compaction_during_the_first_read_ends_the_watch_and_never_skips() -> None:
    world = World(ring_groups=1)
    for _ in range(10):
        world.publish()
    watch = world.open(2)
    world.log_is_open.clear()
    reader = asyncio.create_task(watch.next(10), name="reader")
    await asyncio.sleep(0)
    world.trim(5)
    world.log_is_open.set()
    with pytest.raises(OutOfRange) as ended:
        await reader
    assert ended.value.metadata == {"asked": "2", "compacted": "5"}


async def test_compaction_below_an_idle_live_watch_does_not_touch_it() -> None:
    world = World(ring_groups=1)
    watch = world.open(path_prefix="/other")
    for _ in range(10):
        world.publish()
    world.trim(100)
    world.publish(Row(path="/other"))
    deliveries = await drain(watch)
    assert [event.revision for event in list_events(deliveries[0])] == [11]


async def test_a_watch_that_was_idle_while_the_log_was_trimmed_may_still_become_slow() -> None:
    world = World(ring_groups=1, pending_groups_max=2)
    watch = world.open(path_prefix="/other")
    for _ in range(10):
        world.publish()
    world.trim(11)
    for _ in range(5):
        world.publish(Row(path="/other"))
    assert watch.state is WatchState.CATCHING_UP
    events = [event for delivery in await drain(watch) for event in list_events(delivery)]
    assert [event.revision for event in events] == [11, 12, 13, 14, 15]


async def test_marks_never_overtake_events() -> None:
    world = World()
    watch = world.open(key_glob="a")
    world.publish(Row(key="b"))
    assert watch.mark() == 1
    world.publish(Row(key="a"), Row(key="a"))
    assert watch.mark() is None
    assert await step(watch, 1) is not None
    assert watch.mark() is None, "half of the group is still owed"
    assert await step(watch, 1) is not None
    assert watch.mark() == 3


async def test_steps_are_split_at_revisions_only() -> None:
    world = World()
    watch = world.open()
    world.publish(Row(), Row(joined=True), Row(joined=True), Row(), Row(), Row(joined=True))
    deliveries = await drain(watch, 2)
    assert [len(list_events(delivery)) for delivery in deliveries] == [3, 1, 2]
    assert [delivery.through_revision for delivery in deliveries] == [1, 2, 3]
    assert check_event_stream(deliveries, world.history, 0) == 3


async def test_closing_the_hub_ends_every_watch_also_later_ones() -> None:
    world = World()
    watch = world.open()
    world.publish()
    waiting = world.open()
    reader = asyncio.create_task(waiting.next(1), name="reader")
    await asyncio.sleep(0)
    world.hub.close_all(Unavailable(Reason.DRAINING, "the server stops"))
    with pytest.raises(Unavailable):
        await reader
    for ended in (watch, world.open()):
        with pytest.raises(Unavailable):
            await step(ended)
    assert world.hub.statistics().watches == 0


async def test_a_closed_watch_costs_nothing_and_says_that_it_is_closed() -> None:
    world = World()
    watch = world.open()
    watch.close()
    world.publish()
    assert world.hub.statistics().offers == 0
    with pytest.raises(NotFound):
        await step(watch)


async def test_a_malformed_filter_is_refused_at_once() -> None:
    world = World()
    with pytest.raises(InvalidRequest):
        world.open(key_glob="[a")
    assert world.hub.statistics().watches == 0


async def test_a_group_out_of_order_is_refused() -> None:
    world = World()
    world.publish()
    with pytest.raises(ValueError, match="at head 1"):
        world.hub.publish(Changes(number=9, base_revision=5, last_revision=6))


async def test_a_group_that_only_keeps_outcomes_is_no_event() -> None:
    world = World()
    watch = world.open()
    world.hub.publish(Changes(number=1, base_revision=0, last_revision=0))
    assert await step(watch) is None
    assert world.hub.statistics().groups == 0


async def test_a_long_stretch_of_log_without_a_match_gives_marks_to_resume_from() -> None:
    world = World(ring_groups=1)
    for _ in range(9):
        world.publish()
    world.publish(Row(key="wanted"))
    deliveries = await drain(world.open(1, key_glob="wanted"))
    assert [delivery.through_revision for delivery in deliveries] == [3, 6, 9, 10]
    assert [len(list_events(delivery)) for delivery in deliveries] == [0, 0, 0, 1]


async def test_a_reader_that_never_waits_lets_others_run() -> None:
    world = World()
    for _ in range(40):
        world.publish(*[Row()] * 1000)
    watch = world.open(1)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    other = asyncio.create_task(count_turns(), name="other")
    await asyncio.sleep(0)
    for _ in range(40):
        await watch.next(1000)
    other.cancel()
    assert turns >= 1


async def test_ten_thousand_watches_that_cannot_match_are_not_touched() -> None:
    world = World()
    for number in range(2000):
        world.open(path_prefix=f"/far/{number}")
        world.open(path_prefix="/town", key_glob=f"k{number}")
        world.open(path_glob=f"/town/{number}/*")
        world.open(types=frozenset({EventType.ENTRY_DELETED}), actor=f"agent-{number}")
        world.open(types=frozenset({EventType.GATE_OPENED}))
    matching = world.open(path_prefix="/town")
    world.publish(Row(path="/town", key="a", actor="ann"))
    assert world.hub.statistics().offers == 1
    assert await step(matching) is not None


async def test_a_replay_without_a_match_says_at_once_that_it_has_caught_up() -> None:
    world = World()
    for _ in range(20):
        world.publish()
    world.publish(Row(key="wanted"))
    for _ in range(20):
        world.publish()
    never, once, live = world.open(1, key_glob="never"), world.open(1, key_glob="wanted"), world.open(key_glob="never")
    assert [delivery.through_revision for delivery in await drain(never)] == [41]
    deliveries = await drain(once)
    assert [len(list_events(delivery)) for delivery in deliveries] == [1, 0]
    assert deliveries[-1].through_revision == 41
    assert await drain(live) == [], "one from now on has nothing to catch up with"
    world.publish()
    assert await drain(never) == [], "later marks are for heartbeats"
