"""Watches of a session over a real connection: credit, marks, ends."""

import asyncio
from typing import Any

from env_api.v1 import errors_pb2
from env_api.v1 import session_pb2 as pb

from env_server.model.errors import InternalError, NotFound, OutOfRange, Reason
from env_server.model.limits import Limits
from env_server.model.watching import Delivery
from env_server.rpc.session.outbox import Outbox
from env_server.rpc.session.session_watches import SessionWatches
from tests.unit.env_server.rpc.fakes import FakeWatch, FakeWorld, Served, make_changes, serve, wait_until
from tests.unit.env_server.rpc.session.test_session import Client, connect


async def open_watch(served: Served, client: Client, **fields: Any) -> FakeWatch:
    before = len(served.world.watches.opened)
    await client.send(watch=pb.WatchStart(**fields))
    await wait_until(lambda: len(served.world.watches.opened) > before)
    return served.world.watches.opened[-1]


def step(count: int, base: int = 0) -> Delivery:
    return Delivery(make_changes(count, base=base), None, base + count)


async def test_events_of_two_watches_come_under_their_ids() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        one = await open_watch(served, client, watch_id=1)
        two = await open_watch(served, client, watch_id=2, filter={"exclude_own": True})
        assert two.spec.filter.excluded_producer == "c"
        one.steps.put_nowait(step(3))
        events = (await client.read()).events
        assert (events.watch_id, events.count, events.through_revision) == (1, 3, 3)
        two.steps.put_nowait(step(2))
        assert (await client.read()).events.watch_id == 2
        client.call.cancel()
        await wait_until(lambda: one.closed and two.closed)


async def test_credit_in_events_is_kept() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        watch = await open_watch(served, client, watch_id=1, credit_events=5)
        for base in range(0, 30, 3):
            watch.steps.put_nowait(step(3, base))
        assert [(await client.read()).events.through_revision for _ in range(2)] == [3, 6]
        await client.send(ping=pb.Ping(token=1))
        assert (await client.read()).HasField("pong")  # no third frame before it
        assert watch.asked[:2] == [5, 2]
        await client.send(credit=pb.WatchCredit(watch_id=1, events=2))
        assert (await client.read()).events.through_revision == 9
        client.call.cancel()


async def test_credit_in_bytes_is_kept() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        watch = await open_watch(served, client, watch_id=1, credit_bytes=1)
        watch.steps.put_nowait(step(3))
        watch.steps.put_nowait(step(3, 3))
        assert (await client.read()).events.through_revision == 3
        await client.send(ping=pb.Ping(token=1))
        assert (await client.read()).HasField("pong")
        await client.send(credit=pb.WatchCredit(watch_id=1, bytes=10_000))
        assert (await client.read()).events.through_revision == 6
        client.call.cancel()


async def test_a_split_step_waits_for_credit_between_its_frames() -> None:
    async with serve(FakeWorld(limits=Limits(message_bytes_max=1500))) as served:
        client, _ = await connect(served)
        watch = await open_watch(served, client, watch_id=1, credit_events=1)
        watch.steps.put_nowait(Delivery(make_changes(40, values=["x" * 100] * 40), None, 40))
        first = (await client.read()).events
        await client.send(ping=pb.Ping(token=1))
        assert (await client.read()).HasField("pong")
        await client.send(credit=pb.WatchCredit(watch_id=1, events=1000))
        seen = first.count
        while seen < 40:
            seen += (await client.read()).events.count
        assert seen == 40
        client.call.cancel()


async def test_a_cancelled_watch_ends_without_error_once() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        watch = await open_watch(served, client, watch_id=4)
        await client.send(cancel=pb.WatchCancel(watch_id=4))
        await client.send(cancel=pb.WatchCancel(watch_id=4))  # ended already: nothing to say
        await client.send(credit=pb.WatchCredit(watch_id=4, events=1))
        await client.send(ping=pb.Ping(token=1))
        ended = (await client.read()).watch_ended
        assert (ended.watch_id, ended.HasField("error")) == (4, False)
        assert (await client.read()).HasField("pong")
        assert watch.closed
        await open_watch(served, client, watch_id=4)  # the id is free again
        client.call.cancel()


async def test_a_watch_that_ends_says_why() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        for error in (OutOfRange(Reason.REVISION_COMPACTED, "gone"), RuntimeError("/var/lib/secret")):
            watch = await open_watch(served, client, watch_id=1)
            watch.steps.put_nowait(step(1))
            watch.steps.put_nowait(error)
            assert (await client.read()).events.count == 1
            ended = (await client.read()).watch_ended
            assert ended.watch_id == 1
            if isinstance(error, RuntimeError):
                assert ended.error.metadata["incident"] == "incident-1"
            else:
                assert ended.error.reason == errors_pb2.ERROR_REASON_REVISION_COMPACTED
            assert "secret" not in str(ended)
        client.call.cancel()


async def test_a_watch_that_cannot_begin_ends() -> None:
    async with serve(FakeWorld(limits=Limits(watches_per_session_max=1))) as served:
        client, _ = await connect(served)
        cases: list[tuple[dict[str, Any], Reason]] = [
            ({"filter": {"path_prefix": "x"}}, Reason.INVALID_PATH),
            ({"history": "other"}, Reason.HISTORY_MISMATCH),
            ({"group": 1}, Reason.INVALID_FIELD),
        ]
        for fields, reason in cases:
            await client.send(watch=pb.WatchStart(watch_id=1, **fields))
            ended = (await client.read()).watch_ended
            assert (ended.watch_id, ended.error.reason) == (1, reason)
        served.world.watches.refusal = NotFound(Reason.WORLD_NOT_FOUND, world="main")
        await client.send(watch=pb.WatchStart(watch_id=1))
        assert (await client.read()).watch_ended.error.reason == Reason.WORLD_NOT_FOUND
        served.world.watches.refusal = None
        await open_watch(served, client, watch_id=1)
        await client.send(watch=pb.WatchStart(watch_id=2))
        ended = (await client.read()).watch_ended
        assert (ended.watch_id, ended.error.reason) == (2, Reason.WATCH_QUOTA)
        await client.send(watch=pb.WatchStart(watch_id=1))
        assert (await client.read()).error.reason == Reason.INVALID_FIELD
        client.call.cancel()


async def test_idle_watches_give_their_mark_once_and_the_stream_goes_on_beating() -> None:
    async with serve(FakeWorld(limits=Limits(heartbeat_ms=20))) as served:
        client, _ = await connect(served)
        watch = await open_watch(served, client, watch_id=1)
        watch.marked = 7
        seen = [await client.read() for _ in range(5)]
        marks = [message.events for message in seen if message.HasField("events")]
        assert [(mark.watch_id, mark.count, mark.through_revision) for mark in marks] == [(1, 0, 7)]
        assert sum(message.HasField("pong") for message in seen) == 4
        client.call.cancel()


async def test_a_mark_does_not_overtake_rows_that_wait_for_credit() -> None:
    async with serve(FakeWorld(limits=Limits(heartbeat_ms=20, message_bytes_max=1500))) as served:
        client, _ = await connect(served)
        watch = await open_watch(served, client, watch_id=1, credit_events=1)
        watch.marked = 40
        watch.steps.put_nowait(Delivery(make_changes(40, values=["x" * 100] * 40), None, 40))
        while not (await client.read()).events.count:
            pass
        await asyncio.sleep(0.1)  # several heartbeats
        await client.send(credit=pb.WatchCredit(watch_id=1, events=1000))
        through = []
        while not through or through[-1] < 40:
            message = await client.read()
            if message.HasField("events"):
                through.append(message.events.through_revision)
        assert through.count(40) == 1
        client.call.cancel()


async def test_marks_of_many_watches_come_a_few_at_a_time_and_each_watch_has_its_own() -> None:
    world: Any = FakeWorld()
    outbox = Outbox()
    watches = SessionWatches(world, "c", (), outbox, lambda defect: InternalError("0"))
    for watch_id in range(1, 1001):
        watches.start(pb.WatchStart(watch_id=watch_id))
    await asyncio.sleep(0)  # their tasks run
    for watch in world.watches.opened:
        watch.marked = 7
    marking = asyncio.create_task(watches.mark(), name="marking")
    marked: list[int] = []
    while len(marked) < 999:
        await wait_until(lambda: len(outbox) or marking.done())
        assert len(outbox) <= 64, "an answer would wait behind all of them"
        for _ in range(len(outbox)):
            item = await outbox.take()
            assert isinstance(item, bytes)
            marked.append(pb.SessionResponse.FromString(item).events.watch_id)
        if 1000 not in marked and len(marked) == 64:
            watches.cancel(1000)
            await outbox.take()  # that it has ended
    await marking
    assert marked == list(range(1, 1000))
    await watches.close()
