"""The session stream over a real connection."""

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from env_api.v1 import errors_pb2
from env_api.v1 import session_pb2 as pb
from google.rpc import error_details_pb2, status_pb2

from env_server.leases.leases import Kept
from env_server.model.clock_reports import ClockReport, ReportVoid
from env_server.model.errors import Fenced
from env_server.model.limits import Limits
from env_server.rpc.session.session import BATCH_BYTES_MAX, BATCH_REQUESTS_MAX
from tests.unit.env_server.rpc.fakes import FakeWorld, Served, serve, wait_until


class Client:
    """One stream, message by message."""

    def __init__(self, served: Served) -> None:
        self.call = served.channel.stream_stream("/env_api.v1.EnvironmentService/Session")()

    async def send(self, **fields: Any) -> None:
        await self.call.write(pb.SessionRequest(**fields).SerializeToString())

    async def read(self) -> pb.SessionResponse:
        async with asyncio.timeout(5):
            raw = await self.call.read()
        assert raw is not grpc.aio.EOF, "the stream has ended"
        return pb.SessionResponse.FromString(raw)

    async def set(self, seq: int, key: str = "k", value: int = 1) -> None:
        await self.send(frame=pb.OpFrame(seq=seq, paths=["/a"], ops=[pb.Op(key=key, set_int=value)]))


async def connect(served: Served, client_id: str = "c", **fields: Any) -> tuple[Client, pb.Welcome]:
    client = Client(served)
    await client.send(hello=pb.Hello(client_id=client_id, **fields))
    return client, (await client.read()).welcome


async def test_welcome_states_the_limits_and_where_the_client_stood() -> None:
    async with serve() as served:
        served.world.last_seqs["c"] = 17
        _, welcome = await connect(served)
        limits = served.world.limits
        assert (welcome.world, welcome.history, welcome.last_frame_seq) == ("main", "h1", 17)
        assert welcome.frames_in_flight_max == limits.session_frames_kept_max
        assert (welcome.frame_ops_max, welcome.frame_bytes_max) == (4096, limits.frame_bytes_max)
        assert welcome.heartbeat_ms == limits.heartbeat_ms


async def test_a_client_that_may_have_been_forgotten_is_refused_and_one_with_a_stream_is_known_to_the_world() -> None:
    async with serve() as served:
        client, welcome = await connect(served, unanswered_since=served.world.position)
        assert welcome.position == served.world.position
        assert served.world.open_clients == ["c"]
        client.call.cancel()
        await wait_until(lambda: not served.world.open_clients)
        late = Client(served)
        await late.send(hello=pb.Hello(client_id="c", unanswered_since=1))
        assert await late.call.code() is grpc.StatusCode.FAILED_PRECONDITION
        status = status_pb2.Status.FromString(dict(await late.call.trailing_metadata())["grpc-status-details-bin"])
        info = error_details_pb2.ErrorInfo()
        status.details[0].Unpack(info)
        assert (info.reason, info.metadata["executed"]) == ("SESSION_EXPIRED", "unknown")
        assert not served.world.open_clients


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"hello": {"client_id": "c", "world": "nowhere"}}, grpc.StatusCode.NOT_FOUND),
        ({"hello": {"client_id": "c", "history": "other"}}, grpc.StatusCode.FAILED_PRECONDITION),
        ({"hello": {"client_id": ""}}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"hello": {"client_id": "a b"}}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"hello": {"client_id": "c", "groups": ["g"]}}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"ping": {}}, grpc.StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_a_stream_that_cannot_begin_ends_with_a_status(fields: dict[str, Any], code: grpc.StatusCode) -> None:
    async with serve() as served:
        client = Client(served)
        await client.send(**fields)
        assert await client.call.code() is code


async def test_frames_are_answered_in_order() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        for seq in range(1, 31):
            await client.set(seq)
        answers = [(await client.read()).answer for _ in range(30)]
        assert [answer.seq for answer in answers] == list(range(1, 31))
        assert [answer.base_revision for answer in answers] == list(range(30))
        assert served.world.frames[0].client_id == "c"
        await client.send(acknowledge=pb.FrameAcknowledge(seq=30))
        await client.call.done_writing()
        assert await client.call.code() is grpc.StatusCode.OK
        assert served.world.acknowledged == [("c", 30)]


async def test_a_waiting_op_is_answered_in_a_further_part() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        ops = [pb.Op(key="k", set_int=1), pb.Op(invoke={"operation": "wait"})]
        await client.send(frame=pb.OpFrame(seq=1, paths=["/a"], ops=ops))
        first = (await client.read()).answer
        assert (first.part, list(first.pending)) == (0, [1])
        await client.call.done_writing()  # what is in flight still comes
        served.world.release()
        second = (await client.read()).answer
        assert (second.part, second.outcomes[0].index, second.outcomes[0].invoke.result_json) == (1, 1, b'"done"')
        assert await client.call.code() is grpc.StatusCode.OK


async def test_what_is_wrong_with_a_message_is_said_and_the_stream_goes_on() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        await client.call.write(b"\xff\xff")
        assert (await client.read()).error.reason == errors_pb2.ERROR_REASON_MALFORMED_MESSAGE
        for fields in ({}, {"hello": {"client_id": "c"}}, {"watch": {"watch_id": 0}}):
            await client.send(**fields)
            assert (await client.read()).error.reason == errors_pb2.ERROR_REASON_INVALID_FIELD
        await client.set(1)
        assert (await client.read()).answer.count == 1
        client.call.cancel()


async def test_a_frame_beyond_a_limit_is_refused_as_a_whole_and_the_stream_goes_on() -> None:
    async with serve(FakeWorld(limits=Limits(frame_ops_max=3, frame_bytes_max=1000))) as served:
        client, _ = await connect(served)
        ops = [pb.Op(key="k", set_int=1)] * 4
        await client.send(frame=pb.OpFrame(seq=1, paths=["/a"], ops=ops))
        answer = (await client.read()).answer
        assert (answer.seq, answer.count, answer.outcomes[0].index) == (1, 4, 4)
        assert answer.outcomes[0].error.metadata["limit"] == "frame_ops_max"
        await client.send(frame=pb.OpFrame(seq=2, paths=["/a"], ops=[pb.Op(key="k", set_string="x" * 1000)]))
        answer = (await client.read()).answer
        assert answer.outcomes[0].error.metadata["limit"] == "frame_bytes_max"
        await client.set(3)
        assert not (await client.read()).answer.outcomes
        client.call.cancel()


async def test_a_defect_fails_its_frame_alone() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        ops = [pb.Op(invoke={"operation": "break"})]
        await client.send(frame=pb.OpFrame(seq=1, paths=["/a"], ops=ops))
        error = (await client.read()).answer.outcomes[0].error
        assert (error.metadata["incident"], error.executed) == ("incident-1", errors_pb2.EXECUTED_UNKNOWN)
        assert "secret" not in str(error)
        await client.set(2)
        assert (await client.read()).answer.seq == 2
        client.call.cancel()


async def test_a_ping_is_answered_with_its_token() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        await client.send(ping=pb.Ping(token=99))
        assert (await client.read()).pong.token == 99
        client.call.cancel()


async def test_an_idle_stream_says_something_every_heartbeat() -> None:
    async with serve(FakeWorld(limits=Limits(heartbeat_ms=20))) as served:
        client, _ = await connect(served)
        for _ in range(3):
            assert (await client.read()).HasField("pong")
        client.call.cancel()


async def test_a_newer_stream_replaces_the_living_one() -> None:
    async with serve() as served:
        old, _ = await connect(served)
        new, _ = await connect(served)
        assert await old.call.code() is grpc.StatusCode.ABORTED
        await new.set(1)
        assert (await new.read()).answer.seq == 1
        other, _ = await connect(served, "d")
        await other.send(ping=pb.Ping(token=1))
        assert (await other.read()).pong.token == 1
        new.call.cancel()
        other.call.cancel()


async def test_nothing_but_frames_waits_behind_frames_beyond_those_that_may_be_unanswered() -> None:
    limits = Limits(session_frames_kept_max=4)
    async with serve(FakeWorld(limits=limits)) as served:
        keep = lambda lease_ids, done: done(Kept(list(lease_ids), []))  # noqa: E731
        served.world.leasing = SimpleNamespace(keep=keep)  # type: ignore[attr-defined]
        client, _ = await connect(served)
        for seq in range(1, 7):
            await client.send(frame=pb.OpFrame(seq=seq, paths=["/a"], ops=[pb.Op(invoke={"operation": "wait"})]))
        await client.send(keep_alive=pb.LeaseKeepAlive(lease_ids=[3]))
        await client.send(ping=pb.Ping(token=9))
        for seq in range(1, 5):
            assert (await client.read()).answer.seq == seq
        assert list((await client.read()).leases_kept.lease_ids) == [3]
        assert (await client.read()).pong.token == 9
        assert [frame.seq for frame in served.world.frames] == [1, 2, 3, 4]
        served.world.release()
        await wait_until(lambda: len(served.world.frames) == 6)
        assert [frame.seq for frame in served.world.frames] == [1, 2, 3, 4, 5, 6], "frames keep their order"
        served.world.release()
        last = [(await client.read()).answer for _ in range(8)]
        assert sorted((answer.seq, answer.part) for answer in last if not answer.pending) == [
            (n, 1) for n in range(1, 7)
        ]
        await client.call.done_writing()
        assert await client.call.code() is grpc.StatusCode.OK


async def test_frames_that_wait_are_bounded_by_not_reading() -> None:
    limits = Limits(session_frames_kept_max=4)
    async with serve(FakeWorld(limits=limits)) as served:
        client, welcome = await connect(served)
        assert welcome.frames_in_flight_max == 4
        for seq in range(1, 11):
            ops = [pb.Op(invoke={"operation": "wait"})]
            await client.send(frame=pb.OpFrame(seq=seq, paths=["/a"], ops=ops))
        await client.send(ping=pb.Ping(token=9))
        await asyncio.sleep(0.1)
        assert len(served.world.frames) == 4
        (stream,) = [stream for stream in served.service.streams._streams if stream.client_id == "c"]
        assert len(stream._held) == 4, "the rest is not read"  # type: ignore[attr-defined]
        other, _ = await connect(served, "d")  # nobody else waits
        await other.set(1)
        assert (await other.read()).answer.seq == 1
        while len(served.world.frames) < 11:
            served.world.release()
            await asyncio.sleep(0.01)
        client.call.cancel()
        other.call.cancel()


async def test_a_reader_that_stops_reading_costs_a_bound_and_holds_up_nobody() -> None:
    async with serve() as served:
        idle, _ = await connect(served)
        flood = asyncio.create_task(send_pings(idle, 200_000), name="flood")
        other, _ = await connect(served, "d")
        for seq in range(1, 20):
            await other.set(seq)
            assert (await other.read()).answer.seq == seq
        await asyncio.sleep(0.5)
        (stream,) = [stream for stream in served.service.streams._streams if stream.client_id == "c"]
        assert len(stream._outbox) < 1000  # type: ignore[attr-defined]
        flood.cancel()
        await asyncio.gather(flood, return_exceptions=True)
        idle.call.cancel()
        other.call.cancel()


async def send_pings(client: Client, count: int) -> None:
    raw = pb.SessionRequest(ping=pb.Ping(token=2**60)).SerializeToString()
    for _ in range(count):
        await client.call.write(raw)


async def test_a_cancelled_stream_leaves_nothing_behind() -> None:
    async with serve() as served:
        for _ in range(20):
            client, _ = await connect(served)
            await client.set(1)
            client.call.cancel()
        await wait_until(lambda: not len(served.service.streams))


async def test_reports_of_participants_keep_their_place_behind_frames_that_are_held() -> None:
    async with serve(FakeWorld(limits=Limits(session_frames_kept_max=3))) as served:
        client, _ = await connect(served)
        world = served.world
        wait = pb.Op(invoke={"operation": "wait", "args_json": b"{}"})
        for seq in (1, 2, 3):
            await client.send(frame=pb.OpFrame(seq=seq, paths=["/a"], ops=[wait]))
        await client.set(4)
        report = {"path": "/town", "key": "bob", "set_revision": 4, "earliest_wake_ns": 0, "consumed_revision": 9}
        await client.send(clock_report=report)
        await client.send(ping=pb.Ping(token=1))
        await wait_until(lambda: len(world.frames) == 3 and len(world.waiting) == 3)
        while (await client.read()).WhichOneof("response") != "pong":
            pass
        assert not world.timekeeping.reported, "the frame before it is held"
        for release in list(world.waiting):
            release()
        await wait_until(lambda: bool(world.timekeeping.reported))
        assert len(world.frames) == 4
        said, reporter = world.timekeeping.reported[0]
        assert said == ClockReport("/town", "bob", 4, False, 0, 9)
        client.call.cancel()
        await wait_until(lambda: world.timekeeping.ended == [reporter])


async def test_a_report_that_does_not_count_is_told_and_the_stream_goes_on() -> None:
    async with serve() as served:
        client, _ = await connect(served, groups=["/east"])
        for fields, reason in (
            ({"key": "stranger", "group": 1}, errors_pb2.ERROR_REASON_PARTICIPANT_NOT_FOUND),
            ({"key": "bob"}, errors_pb2.ERROR_REASON_PERMISSION_DENIED),
            ({"key": "bob", "group": 2}, errors_pb2.ERROR_REASON_INVALID_FIELD),
        ):
            await client.send(clock_report={"path": "/town", "set_revision": 4, **fields})
            void = (await client.read()).clock_report_void
            assert (void.path, void.key, void.set_revision) == ("/town", fields["key"], 4)
            assert void.error.reason == reason
        await client.send(clock_report={"path": "/town", "key": "bob", "set_revision": 4, "group": 1, "busy": True})
        await wait_until(lambda: bool(served.world.timekeeping.reported))
        said, reporter = served.world.timekeeping.reported[0]
        assert said.group == "/east" and said.earliest_wake_ns is None
        reporter.void(ReportVoid("/town", "bob", 4, Fenced("set again")))
        assert (await client.read()).clock_report_void.error.reason == errors_pb2.ERROR_REASON_FENCED


async def test_a_defect_that_a_report_meets_is_told_of_it_and_the_stream_goes_on() -> None:
    async with serve() as served:
        client, _ = await connect(served)

        def fail(report: object, reporter: object) -> None:
            raise ZeroDivisionError

        served.world.timekeeping.report = fail
        await client.send(clock_report={"path": "/town", "key": "bob", "set_revision": 4})
        assert (await client.read()).clock_report_void.error.reason == errors_pb2.ERROR_REASON_INTERNAL
        await client.set(1)
        assert (await client.read()).answer.seq == 1


async def test_a_report_that_does_not_know_of_refused_ops_does_not_count() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        await client.set(1)
        assert (await client.read()).answer.seq == 1
        refused = served.world.frames[0].refused_for_now
        assert refused is not None
        refused()
        reported = served.world.timekeeping.reported
        for told in ({"refusals": 0}, {"refusals": 1}, {}):
            report = {"path": "/town", "key": "bob", "set_revision": 4, "fence": {"path": "/locks", "key": "part"}}
            await client.send(clock_report={**report, **told})
        await wait_until(lambda: len(reported) == 2)
        ((reporter, refusals),) = served.world.timekeeping.behind
        assert refusals == 1 and [report.refusals for report, _ in reported] == [1, None]
        assert reported[0][1] is reporter and reported[0][0].fence is not None


def encode(**fields: Any) -> bytes:
    return pb.SessionRequest(**fields).SerializeToString()


def make_set(seq: int, key: str = "k") -> bytes:
    return encode(frame=pb.OpFrame(seq=seq, paths=["/a"], ops=[pb.Op(key=key, set_int=seq)]))


async def test_a_batch_is_taken_in_order_and_what_is_wrong_with_one_of_it_is_told_alone() -> None:
    async with serve() as served:
        client, welcome = await connect(served)
        assert welcome.batch_bytes_max == BATCH_BYTES_MAX
        report = {"path": "/town", "key": "bob", "set_revision": 4, "consumed_revision": 9}
        nested = encode(batch=pb.RequestBatch(requests=[make_set(9)]))
        hello = encode(hello=pb.Hello(client_id="c"))
        requests = [make_set(1), b"\xff", nested, hello, make_set(2), encode(clock_report=report)]
        await client.send(batch=pb.RequestBatch(requests=requests))
        received = [await client.read() for _ in range(5)]
        assert [one.answer.seq for one in received if one.WhichOneof("response") == "answer"] == [1, 2]
        errors = [one.error.message for one in received if one.WhichOneof("response") == "error"]
        assert len(errors) == 3 and "another one" in errors[1] and "already" in errors[2]
        assert [frame.seq for frame in served.world.frames] == [1, 2]
        assert len(served.world.timekeeping.reported) == 1


async def test_a_batch_that_is_too_large_is_refused_whole() -> None:
    async with serve() as served:
        client, _ = await connect(served)
        await client.send(batch=pb.RequestBatch(requests=[make_set(1), bytes(BATCH_BYTES_MAX)]))
        assert f"{BATCH_BYTES_MAX} are allowed" in (await client.read()).error.message
        nothing_at_all = [b""] * (BATCH_REQUESTS_MAX + 1)  # each would be answered with more than it weighs
        await client.send(batch=pb.RequestBatch(requests=nothing_at_all))
        assert f"{BATCH_REQUESTS_MAX} are allowed" in (await client.read()).error.message
        await client.set(1)
        assert (await client.read()).answer.seq == 1 and len(served.world.frames) == 1
