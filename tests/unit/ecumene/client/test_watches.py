"""Watches: ordered, without gap, without duplicate, bounded in memory, and never ended in silence."""

from __future__ import annotations

import asyncio
import gc

import ecumene
import pytest
from ecumene import ClientSettings, EventFilter, EventType, World
from env_api.v1 import errors_pb2

from tests.unit.ecumene.client.conftest import QUICK
from tests.unit.ecumene.client.fake_server import FakeServer, reached


def fill(server: FakeServer, first: int, last: int) -> None:
    """Put events first..last, key = revision, and send them to those who watch."""
    for number in range(first, last + 1):
        server.put(str(number), float(number))
    server.deliver()


async def take(watch: ecumene.Watch, count: int) -> list[ecumene.Event]:
    async with asyncio.timeout(5):
        return [await anext(watch) for _ in range(count)]


async def started(server: FakeServer, count: int = 1) -> None:
    """Until `count` watches run on the stream at hand."""
    await reached(lambda: bool(server.streams) and len(server.streams[-1].cursors) >= count)


async def test_a_watch_from_now_sees_what_its_own_session_does_next(server: FakeServer, world: World) -> None:
    fill(server, 1, 3)
    watch = world.environment("/").watch()
    await world.environment("/").set("mine", 4.5)
    (event,) = await take(watch, 1)
    assert (event.revision, event.type, event.path, event.key, event.value) == (
        4,
        EventType.ENTRY_SET,
        "/",
        "mine",
        4.5,
    )


async def test_a_replay_begins_with_the_revision_asked_for(server: FakeServer, world: World) -> None:
    fill(server, 1, 5)
    watch = world.watch(from_revision=2)
    assert [event.revision for event in await take(watch, 4)] == [2, 3, 4, 5]


async def test_a_broken_connection_leaves_neither_gap_nor_duplicate(server: FakeServer, world: World) -> None:
    watch = world.watch(from_revision=1)
    seen: list[int] = []
    for round_ in range(5):
        await started(server)
        fill(server, 10 * round_ + 1, 10 * round_ + 10)
        seen += [event.revision for event in await take(watch, 7)]
        server.connected.clear()
        server.cut()
        async with asyncio.timeout(5):
            await server.connected.wait()
    seen += [event.revision for event in await take(watch, 15)]
    assert seen == list(range(1, 51))


async def test_a_watch_from_now_loses_nothing_when_it_breaks_before_its_first_event(
    server: FakeServer, world: World
) -> None:
    watch = world.watch()
    await started(server)
    server.cut()
    for number in range(1, 6):
        server.put(str(number), 0.0)
    assert [event.revision for event in await take(watch, 5)] == [1, 2, 3, 4, 5]
    assert server.streams[-1].received[0].watch.history == "h1"


async def test_a_reader_that_stops_gets_no_more_than_its_window(server: FakeServer) -> None:
    few = ClientSettings(watch_events_max=10, backoff_first_ms=1)
    async with ecumene.connect(server.address, settings=few) as world:
        frames = world.watch_frames(from_revision=1)
        await started(server)
        fill(server, 1, 100)
        await reached(lambda: frames.statistics().events_unread >= 10)
        await world.environment("/").set("other", 0.0)  # the stream is not blocked by it
        assert frames.statistics().events_unread == 10
        revisions = []
        async with asyncio.timeout(5):
            while len(revisions) < 101:
                batch = await anext(frames)
                revisions += batch.revisions
                assert frames.statistics().events_unread <= 10
        assert revisions == list(range(1, 102))


async def test_a_full_watch_waits_for_room_before_it_goes_on_after_a_break(server: FakeServer) -> None:
    few = ClientSettings(watch_events_max=10, backoff_first_ms=1)
    async with ecumene.connect(server.address, settings=few) as world:
        frames = world.watch_frames(from_revision=1)
        await started(server)
        fill(server, 1, 30)
        async with asyncio.timeout(5):
            await reached(lambda: frames.statistics().events_unread >= 10)
            server.cut()
            await server.connected.wait()
            await world.environment("/").set("other", 0.0)
        assert "watch" not in server.streams[-1].kinds()
        revisions: list[int] = []
        async with asyncio.timeout(5):
            while len(revisions) < 31:
                revisions += (await anext(frames)).revisions
        assert revisions == list(range(1, 32))


async def test_compacted_revisions_are_an_error_with_both_revisions_and_nothing_is_skipped(
    server: FakeServer, world: World
) -> None:
    metadata = {"asked": "2", "first": "40"}
    server.watch_refusal = errors_pb2.Error(
        code=11, reason=errors_pb2.ERROR_REASON_REVISION_COMPACTED, message="gone", metadata=metadata
    )
    with pytest.raises(ecumene.RevisionCompactedError) as caught:
        await anext(world.watch(from_revision=2))
    assert (caught.value.requested_revision, caught.value.first_retained_revision) == (2, 40)


async def test_compaction_during_a_break_ends_the_watch_after_what_was_received(
    server: FakeServer, world: World
) -> None:
    watch = world.watch(from_revision=1)
    await started(server)
    fill(server, 1, 2)
    await take(watch, 1)
    server.watch_refusal = errors_pb2.Error(code=11, reason=errors_pb2.ERROR_REASON_REVISION_COMPACTED)
    server.cut()
    assert [event.revision for event in await take(watch, 1)] == [2]
    with pytest.raises(ecumene.RevisionCompactedError):
        await anext(watch)


async def test_initial_state_comes_first_and_its_end_is_told(server: FakeServer, world: World) -> None:
    fill(server, 1, 3)
    watch = world.watch(initial_state=True)
    initial = [(event.type, event.key) async for event in watch.initial_state()]
    assert initial == [(EventType.INITIAL, "1"), (EventType.INITIAL, "2"), (EventType.INITIAL, "3")]
    assert watch.synced_revision == 3
    fill(server, 4, 4)
    assert [event.revision for event in await take(watch, 1)] == [4]


async def test_a_half_read_initial_state_is_not_continued_in_silence(server: FakeServer, world: World) -> None:
    fill(server, 1, 3)
    server.syncing = False
    watch = world.watch(initial_state=True)
    await take(watch, 1)
    server.cut()
    await take(watch, 2)
    with pytest.raises(ecumene.InitialStateInterruptedError):
        await anext(watch)


async def test_an_unread_initial_state_begins_anew_after_a_break(server: FakeServer, world: World) -> None:
    fill(server, 1, 3)
    server.syncing = False
    watch = world.watch(initial_state=True)
    await reached(lambda: watch.statistics().events_unread >= 3)
    server.syncing = True
    server.cut()
    async with asyncio.timeout(5):
        await server.connected.wait()
        await reached(lambda: watch.statistics().events_unread >= 3)
    assert [event.key async for event in watch.initial_state()] == ["1", "2", "3"]


async def test_leaving_a_watch_cancels_it_at_the_server(server: FakeServer, world: World) -> None:
    async with world.watch(EventFilter(path_prefix="/a", types=(EventType.ENTRY_SET,))) as watch:
        await started(server)
        message = next(m.watch for m in server.streams[-1].received if m.HasField("watch"))
        assert (message.filter.path_prefix, list(message.filter.types)) == ("/a", [4])
    await reached(lambda: not (server.streams[-1].cursors))
    with pytest.raises(StopAsyncIteration):
        await anext(watch)


async def test_a_dropped_watch_is_cancelled_at_the_server(server: FakeServer, world: World) -> None:
    watch = world.watch()
    await started(server)
    del watch
    gc.collect()
    await reached(lambda: not (server.streams[-1].cursors))
    assert world.statistics().watches == 0


async def test_many_watches_started_and_cancelled_leave_nothing_behind(server: FakeServer) -> None:
    async with ecumene.connect(server.address, settings=QUICK) as world:
        for _ in range(300):
            await world.watch().aclose()
        await world.environment("/").set("a", 0.0)
        assert world.statistics().watches == 0
        table = vars(world.session.watches)
        assert [len(table[name]) for name in ("_feeds", "_running", "_asking")] == [0, 0, 0]


async def test_a_new_watch_resumes_where_another_stood(server: FakeServer, world: World) -> None:
    frames = world.watch_frames(from_revision=1)
    await started(server)
    fill(server, 1, 6)
    batch = await anext(frames)
    assert batch.revisions == [1, 2]
    again = world.watch(from_revision=frames.resume_revision, history=frames.history)
    assert [event.revision for event in await take(again, 4)] == [3, 4, 5, 6]


async def test_a_watch_whose_connection_broke_before_now_was_known_leaves_nothing_out(
    server: FakeServer, world: World
) -> None:
    fill(server, 1, 3)
    await world.environment("/").set("known", 1.0)
    server.is_silent = True
    watch = world.watch()
    await reached(lambda: "ping" in server.streams[-1].kinds())
    fill(server, 10, 12)
    server.is_silent = False
    server.cut()
    assert [event.key for event in await take(watch, 3)] == ["10", "11", "12"]
