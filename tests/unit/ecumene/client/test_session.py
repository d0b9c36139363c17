"""Sessions outlive their streams: what was issued takes effect once, in order, and every waiter is answered."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import ecumene
import grpc
import pytest
from ecumene import ClientSettings, World
from ecumene.client.outgoing import BATCH_REQUESTS_MAX
from ecumene.client.stream import SessionStream
from env_api.v1 import session_pb2
from google.rpc import error_details_pb2, status_pb2

from tests.unit.ecumene.client.conftest import QUICK
from tests.unit.ecumene.client.fake_server import FakeServer, reached


async def test_an_op_is_answered_with_its_revision_and_version(world: World) -> None:
    room = world.environment("/")
    assert await room.set("a", 1.0) == ecumene.Written(revision=1, version=1)
    assert (await room.set("a", 2.0)).version == 2


async def test_ops_issued_in_one_loop_step_travel_in_one_frame_in_order(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    await asyncio.gather(*[room.set(f"k{number}", float(number)) for number in range(50)])
    assert [len(frame.ops) for frame in server.frames()] == [50]
    assert [key for key, _ in server.log] == [f"k{number}" for number in range(50)]


async def test_more_ops_than_a_frame_may_have_are_sent_in_several(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    await asyncio.gather(*[room.set(f"k{number}", 0.0) for number in range(250)])
    assert [len(frame.ops) for frame in server.frames()] == [100, 100, 50]


async def test_a_failed_op_raises_its_own_error_and_leaves_its_neighbours_alone(world: World) -> None:
    room = world.environment("/")
    first, bad, last = await asyncio.gather(
        room.set("a", 1.0), room.set("bad", 1.0), room.set("b", 1.0), return_exceptions=True
    )
    assert isinstance(bad, ecumene.PreconditionFailedError)
    assert (bad.version, bad.revision, bad.precondition) == (7, 9, "version")
    assert (first, last) == (ecumene.Written(1, 1), ecumene.Written(2, 1))


async def test_a_frame_whose_answer_was_lost_is_sent_again_and_executed_once(server: FakeServer, world: World) -> None:
    server.answering = False
    write = asyncio.create_task(world.environment("/").set("a", 1.0), name="write")
    await reached(lambda: bool(server.log))
    server.answering = True
    server.cut()
    assert await write == ecumene.Written(1, 1)
    assert [frame.seq for frame in server.frames()] == [1, 1]
    assert server.log == [("a", 1.0)]
    assert {stream.hello.client_id for stream in server.streams} == {"tester"}
    assert server.streams[-1].hello.history == "h1"


async def test_a_client_says_since_when_something_is_unanswered(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    server.welcome.position = 20
    await room.set("a", 1.0)
    server.cut()
    await reached(lambda: len(server.streams) == 2)
    assert [stream.hello.unanswered_since for stream in server.streams] == [0, 0]
    server.answering = False
    server.welcome.position = 30
    write = asyncio.create_task(room.set("b", 1.0), name="write")
    await reached(lambda: len(server.log) == 2)
    for count in (3, 4):
        server.cut()
        await reached(lambda count=count: len(server.streams) == count)  # type: ignore[misc]
        await reached(lambda: bool(server.streams[-1].received))
    server.answering = True
    server.cut()
    await write
    assert [stream.hello.unanswered_since for stream in server.streams[2:]] == [20, 20, 20]
    assert all(stream.hello.HasField("unanswered_since") for stream in server.streams)
    server.cut()
    await reached(lambda: len(server.streams) == 6)
    assert server.streams[-1].hello.unanswered_since == 0


async def test_a_client_that_was_forgotten_fails_what_it_had_sent_and_goes_on_with_the_rest(server: FakeServer) -> None:
    server.welcome.position = 7
    async with ecumene.connect(server.address, client_id="tester", settings=QUICK) as world:
        room = world.environment("/")
        server.answering = False
        sent = [asyncio.create_task(room.set("a", 1.0), name="op")]
        await reached(lambda: len(server.log) == 1)
        sent.append(asyncio.create_task(world.frames.send_block("/", ["b"], [2.0]), name="frame"))
        await reached(lambda: len(server.log) == 2)
        server.hello_refusal = session_expired()
        server.cut()
        lost = await asyncio.gather(*sent, return_exceptions=True)
        assert [type(error) for error in lost] == [ecumene.SessionExpiredError] * 2
        assert all(error.executed is ecumene.Executed.UNKNOWN for error in lost)  # type: ignore[union-attr]
        late = asyncio.create_task(room.set("c", 3.0), name="never sent")
        await asyncio.sleep(0)
        server.hello_refusal, server.answering = None, True
        await late
        assert [key for key, _ in server.log] == ["a", "b", "c"], "nothing was sent again"
        assert [frame.seq for frame in server.frames()] == [1, 2, 3]
        hello = server.streams[-1].hello
        assert (hello.client_id, hello.unanswered_since) == ("tester", 0)
        assert (await room.set("d", 4.0)).version == 1


def session_expired() -> tuple[Any, ...]:
    """As a server refuses a client that it may have forgotten."""
    info = error_details_pb2.ErrorInfo(reason="SESSION_EXPIRED", domain="ecumene", metadata={"executed": "unknown"})
    status = status_pb2.Status(code=9, message="forgotten")
    status.details.add().Pack(info)
    trailer = (("grpc-status-details-bin", status.SerializeToString()),)
    return grpc.StatusCode.FAILED_PRECONDITION, "forgotten", trailer


async def test_ops_issued_while_disconnected_follow_the_unanswered_ones(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    server.answering = False
    first = asyncio.create_task(room.set("a", 1.0), name="first")
    await reached(lambda: bool(server.log))
    server.answering = True
    port = int(server.address.rpartition(":")[2])
    await server.stop()
    second = asyncio.create_task(room.set("a", 2.0), name="second")
    await asyncio.sleep(0)
    await server.start(port)
    assert [(await first).version, (await second).version] == [1, 2]
    assert server.log == [("a", 1.0), ("a", 2.0)]


async def test_answered_frames_are_acknowledged_regularly(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    for number in range(9):
        await room.set(f"k{number}", 0.0)
    await reached(lambda: server.streams[-1].kinds().count("acknowledge") >= 4)
    acknowledged = [m.acknowledge.seq for m in server.streams[-1].received if m.HasField("acknowledge")]
    assert acknowledged == [2, 4, 6, 8]


async def test_numbers_go_on_from_the_last_frame_that_the_server_knows(server: FakeServer) -> None:
    server.welcome.last_frame_seq = 41
    async with ecumene.connect(server.address, settings=QUICK) as world:
        await world.environment("/").set("a", 1.0)
    assert [frame.seq for frame in server.frames()] == [42]


async def test_a_silent_connection_is_given_up_within_three_heartbeats(server: FakeServer) -> None:
    server.welcome.heartbeat_ms = 50
    async with ecumene.connect(server.address, settings=QUICK) as world:
        server.is_silent = True
        loop = asyncio.get_running_loop()
        started = loop.time()
        await reached(lambda: not (world.statistics().is_connected))
        assert loop.time() - started < 0.3
        server.is_silent = False
        assert (await world.environment("/").set("a", 1.0)).version == 1


async def test_a_server_that_is_about_to_stop_gets_no_new_frames(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    await room.set("a", 1.0)
    first = server.streams[-1]
    first.send(go_away=session_pb2.GoAway(reason="drain"))
    await reached(lambda: len(server.streams) >= 2)
    await room.set("b", 1.0)
    assert first.kinds() == ["frame"]
    assert "frame" in server.streams[-1].kinds()


async def test_connecting_to_a_wrong_address_fails_in_time_with_the_cause() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    loop = asyncio.get_running_loop()
    started = loop.time()
    with pytest.raises(ecumene.ConnectionFailedError, match="refused") as caught:
        await ecumene.connect(address, timeout_s=0.3, settings=QUICK)
    assert loop.time() - started < 2
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_listener_that_never_answers_counts_as_unreachable() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        with pytest.raises(ecumene.ConnectionFailedError):
            await ecumene.connect(f"127.0.0.1:{deaf.getsockname()[1]}", timeout_s=0.3, settings=QUICK)


async def test_a_refusal_that_waiting_does_not_cure_is_raised_at_once(server: FakeServer) -> None:
    server.hello_refusal = (grpc.StatusCode.NOT_FOUND, "no such world")
    with pytest.raises(ecumene.NotFoundError, match="no such world"):
        await ecumene.connect(server.address, "absent", timeout_s=30)


async def test_a_session_that_stays_broken_fails_its_waiters(server: FakeServer) -> None:
    patience = ClientSettings(backoff_first_ms=1, backoff_ms_max=5, reconnect_timeout_s=0.1)
    world = await ecumene.connect(server.address, settings=patience)
    await server.stop()
    room = world.environment("/")
    with pytest.raises(ecumene.ConnectionFailedError) as caught:
        await room.set("a", 1.0)
    assert caught.value.executed is ecumene.Executed.UNKNOWN
    with pytest.raises(ecumene.ConnectionFailedError):
        await room.set("a", 1.0)
    await world.close()


async def test_a_frame_that_breaks_every_stream_is_not_sent_for_ever(server: FakeServer) -> None:
    patience = ClientSettings(backoff_first_ms=1, backoff_ms_max=5, reconnect_timeout_s=0.2)
    world = await ecumene.connect(server.address, settings=patience)
    server.answering = False
    write = asyncio.create_task(world.environment("/").set("a", 1.0), name="write")
    while not write.done():
        if server.streams[-1].kinds() and server.streams[-1].outgoing.empty():
            server.cut()
        await asyncio.sleep(0.001)
    with pytest.raises(ecumene.ConnectionFailedError):
        await write
    assert len(server.log) == 1
    await world.close()


async def test_closing_waits_for_what_is_unanswered(server: FakeServer) -> None:
    world = await ecumene.connect(server.address, settings=QUICK)
    write = asyncio.create_task(world.environment("/").set("a", 1.0), name="write")
    await asyncio.sleep(0)
    await world.close()
    assert write.done()
    assert (await write).revision == 1


async def test_what_still_waits_after_closing_gets_a_typed_error(server: FakeServer) -> None:
    world = await ecumene.connect(server.address, settings=QUICK)
    server.answering = False
    write = asyncio.create_task(world.environment("/").set("a", 1.0), name="write")
    watch = world.watch()
    await reached(lambda: watch.statistics().events_unread == 1)
    await world.session.close(flush_timeout_s=0.01)
    with pytest.raises(ecumene.ClosedError):
        await write
    assert (await anext(watch)).key == "a"
    for ended in (watch, world.watch()):
        with pytest.raises(ecumene.ClosedError):
            await anext(ended)
    await world.close()


async def test_an_op_that_is_not_answered_in_time_raises_and_says_that_its_effect_is_unknown(
    server: FakeServer, world: World
) -> None:
    server.answering = False
    with pytest.raises(ecumene.DeadlineExceededError) as caught:
        await world.environment("/", timeout_s=0.02).set("a", 1.0)
    assert caught.value.executed is ecumene.Executed.UNKNOWN
    assert server.frames()[0].deadline_ms == 20
    server.answering = True
    server.cut()


async def test_too_many_unsent_ops_are_refused_here(server: FakeServer) -> None:
    few = ClientSettings(ops_waiting_max=3)
    async with ecumene.connect(server.address, settings=few) as world:
        room = world.environment("/")
        outcomes = await asyncio.gather(*[room.set("a", 0.0) for _ in range(5)], return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, ecumene.QueueFullError)]
    assert len(refused) == 2
    assert len(server.log) == 3


async def test_an_op_larger_than_a_frame_is_refused_here_and_the_stream_goes_on(
    server: FakeServer, world: World
) -> None:
    room = world.environment("/")
    with pytest.raises(ecumene.LimitExceededError) as caught:
        await room.set("a", "x" * (1 << 20))
    assert caught.value.limit == "frame_bytes_max"
    assert caught.value.actual > caught.value.max
    await room.set("a", 1.0)
    assert len(server.streams) == 1


async def test_closing_ends_a_session_whose_transport_took_the_cancellation_for_its_own(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await ecumene.connect(server.address, settings=QUICK)
    opening = asyncio.Event()

    async def fail_instead_of_being_cancelled(*arguments: object) -> SessionStream:
        opening.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        raise ecumene.UnavailableError("the call has failed")

    monkeypatch.setattr(SessionStream, "open", fail_instead_of_being_cancelled)
    server.cut()
    await opening.wait()
    async with asyncio.timeout(10):
        await world.close()


async def test_what_is_said_in_one_step_travels_as_one_message_as_far_as_the_server_takes_it(
    server: FakeServer,
) -> None:
    server.welcome.batch_bytes_max = 600
    async with ecumene.connect(server.address, settings=QUICK) as world:
        reporter = world.environment("/town").clock().reporter("bob", 7)
        keys = [f"k{number}" for number in range(5)]
        first = await world.frames.submit_block("/", keys, [1.0] * 5)
        second = world.environment("/").set("alone", 2.0)
        reporter.report(consumed_revision=9)
        await second
        await first
        (stream,) = server.streams
        assert stream.kinds()[:3] == ["frame", "frame", "clock_report"] and stream.batches[0] == 3
        frames = [await world.frames.submit_block("/", keys, [float(number)] * 5) for number in range(20)]
        await asyncio.gather(*frames)
        large = await world.frames.submit_block("/", [f"large-{number}" for number in range(90)], [1.0] * 90)
        assert not (await large).failures
        assert max(stream.batches) > 3
    assert [frame.seq for frame in server.frames()] == list(range(1, 24))


async def test_no_more_travel_as_one_message_than_the_contract_allows(server: FakeServer) -> None:
    server.welcome.batch_bytes_max = 1 << 20
    async with ecumene.connect(server.address, settings=QUICK) as world:
        for number in range(BATCH_REQUESTS_MAX + 5):
            world.environment("/town").clock().reporter(f"p{number}", 7).report(consumed_revision=9)
        await reached(lambda: len(server.streams[0].received) >= BATCH_REQUESTS_MAX + 5)
        assert max(server.streams[0].batches) == BATCH_REQUESTS_MAX


async def test_what_did_not_fit_is_sent_once_on_the_next_stream(server: FakeServer) -> None:
    server.welcome.batch_bytes_max = 200
    server.answering = False
    async with ecumene.connect(server.address, settings=QUICK) as world:
        keys = [f"k{number}" for number in range(5)]
        frames = [await world.frames.submit_block("/", keys, [float(number)] * 5) for number in range(6)]
        await reached(lambda: bool(server.frames()))
        server.answering = True
        server.cut()
        await asyncio.gather(*frames)
        (again,) = server.streams[1:]
        sent = [message.frame.seq for message in again.received if message.HasField("frame")]
        assert sent == sorted(set(sent)) and sent[-1] == 6
