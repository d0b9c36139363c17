"""SubscriptionService over a real connection, on a real world in memory."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from env_api.v1 import environment_service_pb2, errors_pb2, events_pb2, operations_pb2, session_pb2
from env_api.v1 import subscription_service_pb2 as pb

from env_server.behaviours.registry import Behaviours
from env_server.clocks.loop_clock import LoopClock
from env_server.model.changes import Changes
from env_server.model.errors import Reason, Unavailable
from env_server.model.limits import Limits
from env_server.pipeline import World
from env_server.storage.memory import MemoryCommitLog, MemoryDisk
from tests.raw_client import Failure, RawSession, call, decode_call_error
from tests.unit.env_server.rpc.fakes import Served, serve, wait_until

SERVICE = "/env_api.v1.SubscriptionService/"
HEARTBEAT_MS = 50


@contextlib.asynccontextmanager
async def serve_world(limits: Limits | None = None) -> AsyncIterator[Served]:
    """A world whose log is in memory, behind the real services."""
    limits = limits or Limits(heartbeat_ms=HEARTBEAT_MS)
    clock = LoopClock(asyncio.get_running_loop())
    log = MemoryCommitLog.open(MemoryDisk(), clock, limits, lambda: "h1")

    async def read_log(from_revision: int, bytes_max: int) -> list[Changes]:
        return log.read(from_revision, bytes_max)

    world = World("main", log, clock, limits, Behaviours([]), read_log)
    log.start(call=lambda report, number: report(number), on_durable=world.durable, on_fatal=pytest.fail)
    async with serve(world) as served:  # type: ignore[arg-type]
        yield served
        world.subscriptions.end_all(Unavailable(Reason.DRAINING, "the test is over"))
    log.kill()


async def ask(served: Served, method_name: str, /, **fields: Any) -> Any:
    """A unary call; the response, or how it failed."""
    request = getattr(pb, f"{method_name}Request")(**fields)
    method = served.channel.unary_unary(
        SERVICE + method_name, type(request).SerializeToString, getattr(pb, f"{method_name}Response").FromString
    )
    try:
        return await method(request, timeout=10)
    except grpc.aio.AioRpcError as error:
        return decode_call_error(error)


class Stream:
    """One consumer."""

    def __init__(self, served: Served, **fields: Any) -> None:
        fields = {"name": "s", "consumer": "c", **fields}
        self.call = served.channel.unary_stream(SERVICE + "Consume")(pb.ConsumeRequest(**fields).SerializeToString())

    async def read(self) -> pb.ConsumeResponse:
        """The next message.

        Raises:
            AssertionError: the stream has ended.
        """
        data = await self.call.read()
        assert data is not grpc.aio.EOF
        return pb.ConsumeResponse.FromString(data)

    async def read_assignment(self) -> pb.Assignment:
        """What it has from now on; marks before that are passed over."""
        while True:
            response = await self.read()
            if response.WhichOneof("response") == "assignment":
                return response.assignment
            assert response.events.count == 0

    async def read_events(self) -> events_pb2.EventFrame:
        """The next frame that is no mark."""
        while True:
            response = await self.read()
            assert response.WhichOneof("response") == "events"
            if response.events.count:
                return response.events

    async def fail(self) -> Failure:
        """How it ended; what comes before is passed over."""
        try:
            while await self.call.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError as error:
            return decode_call_error(error)
        raise AssertionError("it ended without a status")


async def put(served: Served, key: str, value: str = "") -> int:
    """Writes a value; its revision."""
    update = operations_pb2.Update(set={"string_value": value})
    answer = await call(served.channel, "update", path="/", key=key, update=update)
    return int(answer.written.revision)


async def acknowledge(served: Served, term: int, revision: int, *keys: str) -> Any:
    """In a transaction that increments counters."""
    writes = [operations_pb2.Write(path="/", key=key, update=operations_pb2.Update(add_int=1)) for key in keys]
    writes.append(
        operations_pb2.Write(acknowledge=operations_pb2.Acknowledge(subscription="s", term=term, revision=revision))
    )
    return await call(served.channel, "transact", transact=operations_pb2.Transact(writes=writes))


async def test_a_subscription_is_made_seen_sought_and_deleted() -> None:
    async with serve_world() as served:
        asked = events_pb2.EventFilter(
            path_prefix="/", key_glob="a*", types=[events_pb2.EVENT_TYPE_ENTRY_SET], labels={"a": "b"}, actor="me"
        )
        made = await ask(served, "CreateSubscription", name="s", filter=asked, partitions=4, ack_timeout_ms=5000)
        assert made.created
        assert made.header.revision == made.subscription.create_revision == made.subscription.cursor == 2
        assert made.subscription.filter == asked
        assert made.subscription.state == pb.SUBSCRIPTION_STATE_LIVE
        assert (made.subscription.partitions, made.subscription.max_lag) == (4, Limits().subscription_lag_revisions)
        again = await ask(served, "CreateSubscription", name="s", if_absent=True)
        assert (again.created, again.subscription) == (False, made.subscription)
        await ask(served, "CreateSubscription", name="a")
        assert (await ask(served, "GetSubscription", name="s")).subscription == made.subscription
        listed = await ask(served, "ListSubscriptions")
        assert [one.name for one in listed.subscriptions] == ["a", "s"]
        sought = await ask(served, "SeekSubscription", name="s", from_revision=1)
        assert (sought.subscription.cursor, sought.header.revision) == (0, 4)
        assert (await ask(served, "DeleteSubscription", name="s")).header.revision == 5
        gone = await ask(served, "GetSubscription", name="s")
        assert (gone.code, gone.reason) == (grpc.StatusCode.NOT_FOUND.value[0], "SUBSCRIPTION_NOT_FOUND")


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("CreateSubscription", {"name": ""}, "INVALID_FIELD"),
        ("CreateSubscription", {"name": "a/b"}, "INVALID_FIELD"),
        ("CreateSubscription", {"name": "s"}, "SUBSCRIPTION_EXISTS"),
        ("CreateSubscription", {"name": "t", "partitions": 257}, "LIMIT_EXCEEDED"),
        ("CreateSubscription", {"name": "t", "ack_timeout_ms": 999}, "INVALID_FIELD"),
        ("CreateSubscription", {"name": "t", "ack_timeout_ms": -1}, "INVALID_FIELD"),
        ("CreateSubscription", {"name": "t", "ack_timeout_ms": 3_600_001}, "INVALID_FIELD"),
        ("CreateSubscription", {"name": "t", "filter": {"path_glob": "x"}}, "INVALID_PATH"),
        ("CreateSubscription", {"name": "t", "filter": {"key_glob": "["}}, "INVALID_FIELD"),
        ("CreateSubscription", {"name": "t", "filter": {"types": [99]}}, "INVALID_FIELD"),
        ("CreateSubscription", {"name": "t", "filter": {"exclude_own": True}}, "INVALID_FIELD"),
        ("CreateSubscription", {"name": "t", "caller": {"request_id": "x"}}, "INVALID_FIELD"),
        ("CreateSubscription", {"name": "t", "world": "nowhere"}, "WORLD_NOT_FOUND"),
        ("GetSubscription", {"name": "t"}, "SUBSCRIPTION_NOT_FOUND"),
        ("GetSubscription", {"name": "\n"}, "INVALID_FIELD"),
        ("ListSubscriptions", {"world": "nowhere"}, "WORLD_NOT_FOUND"),
        ("ListSubscriptions", {"page_size": -1}, "INVALID_FIELD"),
        ("ListSubscriptions", {"page_size": 10_001}, "LIMIT_EXCEEDED"),
        ("ListSubscriptions", {"page_token": "a/b"}, "INVALID_FIELD"),
        ("SeekSubscription", {"name": "t"}, "SUBSCRIPTION_NOT_FOUND"),
        ("DeleteSubscription", {"name": "t"}, "SUBSCRIPTION_NOT_FOUND"),
        ("ExtendDeadline", {"name": "t"}, "SUBSCRIPTION_NOT_FOUND"),
        ("ExtendDeadline", {"name": "s", "term": 3}, "FENCED"),
        ("Consume", {"name": "t"}, "SUBSCRIPTION_NOT_FOUND"),
        ("Consume", {"consumer": ""}, "INVALID_FIELD"),
        ("Consume", {"consumer": "a b"}, "INVALID_FIELD"),
        ("Consume", {"history": "another"}, "HISTORY_MISMATCH"),
        ("Consume", {"outstanding_max": 100_001}, "LIMIT_EXCEEDED"),
        ("Consume", {"world": "nowhere"}, "WORLD_NOT_FOUND"),
    ],
)
async def test_what_is_wrong_is_told_and_changes_nothing(name: str, fields: dict[str, Any], reason: str) -> None:
    async with serve_world() as served:
        await ask(served, "CreateSubscription", name="s")
        before = served.world.revision
        failure = await (Stream(served, **fields).fail() if name == "Consume" else ask(served, name, **fields))
        assert isinstance(failure, Failure)
        assert failure.reason == reason
        assert served.world.revision == before
        assert len(served.service.streams) == 0


@pytest.mark.parametrize(
    "method", [method.name for method in pb.DESCRIPTOR.services_by_name["SubscriptionService"].methods]
)
async def test_bytes_that_are_no_message_are_refused(method: str) -> None:
    async with serve_world() as served:
        make = served.channel.unary_stream if method == "Consume" else served.channel.unary_unary
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            made: Any = make(SERVICE + method)(b"\xff\xff\xff")
            await (made.read() if method == "Consume" else made)
        assert decode_call_error(caught.value).reason == "MALFORMED_MESSAGE"


async def test_subscriptions_are_listed_in_pages_within_messages_while_they_come_and_go() -> None:
    limits = Limits(heartbeat_ms=HEARTBEAT_MS, page_bytes_max=4000, message_bytes_max=5000)
    async with serve_world(limits) as served:
        labels = {f"l{number}": "x" * 60 for number in range(10)}
        for number in range(30):
            await ask(served, "CreateSubscription", name=f"s{number:02}", filter={"labels": labels})
        names: list[str] = []
        token, pages = "", 0
        while pages == 0 or token:
            page = await ask(served, "ListSubscriptions", page_size=9, page_token=token)
            assert page.ByteSize() <= limits.message_bytes_max
            assert page.header.history == "h1"
            names += [one.name for one in page.subscriptions]
            token, pages = page.next_page_token, pages + 1
            if pages == 1:
                await ask(served, "DeleteSubscription", name=names[-1])  # that which the token stands on
                await ask(served, "CreateSubscription", name="s99")
        assert names == [*[f"s{number:02}" for number in range(30)], "s99"]
        assert pages > 4


async def test_a_consumer_is_told_on_which_line_of_revisions_it_is() -> None:
    async with serve_world() as served:
        await ask(served, "CreateSubscription", name="s")
        first = await Stream(served).read()
        assert first.WhichOneof("response") == "assignment"
        assert (first.header.world, first.header.history) == ("main", "h1")
        assert first.header.revision >= first.assignment.cursor


async def test_a_consumer_gets_its_assignment_then_events_and_acknowledges_in_calls_and_frames() -> None:
    async with serve_world() as served:
        await ask(served, "CreateSubscription", name="s", filter={"key_glob": "k*"})
        stream = Stream(served)
        assignment = await stream.read_assignment()
        assert (list(assignment.partitions), assignment.cursor) == ([0], 2)
        revisions = [await put(served, f"k{number}") for number in range(3)]
        seen: list[str] = []
        while len(seen) < 3:
            frame = await stream.read_events()
            seen += frame.keys
        assert seen == ["k0", "k1", "k2"]
        assert frame.through_revision >= revisions[-1]
        await acknowledge(served, assignment.term, revisions[0], "effects")
        state = (await ask(served, "GetSubscription", name="s")).subscription
        assert (state.cursor, state.consumers[0].outstanding_events) == (revisions[0], 2)
        session = await RawSession(served.channel, "me").open()
        message = operations_pb2.Acknowledge(subscription="s", term=assignment.term, revision=revisions[1])
        (outcome,) = await session.do(session_pb2.Op(acknowledge=message))
        assert outcome.written.changed is False
        message.term += 1
        (outcome,) = await session.do(session_pb2.Op(acknowledge=message))
        assert outcome.error.reason == errors_pb2.ERROR_REASON_FENCED
        assert (await ask(served, "GetSubscription", name="s")).subscription.cursor == revisions[1]
        session.cancel()
        stream.call.cancel()


async def test_a_quiet_stream_gives_marks_that_may_be_acknowledged() -> None:
    async with serve_world() as served:
        await ask(served, "CreateSubscription", name="s", filter={"key_glob": "never"})
        stream = Stream(served)
        assignment = await stream.read_assignment()
        revision = await put(served, "k")
        mark = (await stream.read()).events
        while mark.through_revision < revision:
            assert mark.count == 0
            mark = (await stream.read()).events
        assert not isinstance(await acknowledge(served, assignment.term, mark.through_revision), Failure)
        assert (await ask(served, "GetSubscription", name="s")).subscription.cursor == revision
        stream.call.cancel()


async def test_a_consumer_that_goes_frees_its_partitions_at_once() -> None:
    async with serve_world() as served:
        await ask(served, "CreateSubscription", name="s", partitions=4)
        one, other = Stream(served, consumer="one"), Stream(served, consumer="other")
        await one.read_assignment()
        assert len((await other.read_assignment()).partitions) == 2
        one.call.cancel()
        assert list((await other.read_assignment()).partitions) == [0, 1, 2, 3]
        other.call.cancel()
        await wait_until(lambda: not len(served.service.streams))
        assert not (await ask(served, "GetSubscription", name="s")).subscription.consumers


async def test_why_a_stream_ends_is_told() -> None:
    async with serve_world(Limits(heartbeat_ms=HEARTBEAT_MS, ack_timeout_ms_min=100)) as served:
        await ask(served, "CreateSubscription", name="s", max_lag=10, ack_timeout_ms=100)
        replaced = Stream(served, consumer="old")
        await replaced.read_assignment()
        silent = Stream(served, consumer="new")
        assignment = await silent.read_assignment()
        assert (await replaced.fail()).reason == "FENCED"
        await put(served, "k")
        assert (await silent.fail()).reason == "FENCED"
        assert (await acknowledge(served, assignment.term, 2)).reason == "FENCED"
        slow = Stream(served)
        await slow.read_assignment()
        for _ in range(12):
            await put(served, "k")
        lapsed = await slow.fail()
        assert (lapsed.code, lapsed.reason) == (grpc.StatusCode.OUT_OF_RANGE.value[0], "SUBSCRIPTION_LAPSED")
        assert lapsed.metadata["cursor"] == "2"
        assert (await Stream(served).fail()).reason == "SUBSCRIPTION_LAPSED"
        state = (await ask(served, "GetSubscription", name="s")).subscription.state
        assert state == pb.SUBSCRIPTION_STATE_LAPSED
        await ask(served, "SeekSubscription", name="s")
        doomed = Stream(served)
        await doomed.read_assignment()
        await ask(served, "DeleteSubscription", name="s")
        assert (await doomed.fail()).reason == "SUBSCRIPTION_NOT_FOUND"
        await ask(served, "CreateSubscription", name="s")
        drained = Stream(served)
        await drained.read_assignment()
        await served.service.drain("the server stops", 5)
        failure = await drained.fail()
        assert (failure.reason, failure.retry_delay_ms > 0) == ("DRAINING", True)


async def test_a_deadline_is_extended() -> None:
    async with serve_world(Limits(heartbeat_ms=HEARTBEAT_MS, ack_timeout_ms_min=100)) as served:
        await ask(served, "CreateSubscription", name="s", ack_timeout_ms=400)
        stream = Stream(served)
        term = (await stream.read_assignment()).term
        revision = await put(served, "k")
        await stream.read_events()
        for _ in range(12):
            await asyncio.sleep(0.1)  # three times the deadline in all
            assert not isinstance(await ask(served, "ExtendDeadline", name="s", term=term), Failure)
        assert not isinstance(await acknowledge(served, term, revision), Failure)
        stream.call.cancel()


async def test_what_was_asked_before_is_done_once() -> None:
    async with serve_world() as served:
        caller = environment_service_pb2.Caller(request_id="8c7cbd1e-3f0e-4b43-9e57-111111111111")
        first = await ask(served, "CreateSubscription", name="s", caller=caller)
        again = await ask(served, "CreateSubscription", name="s", caller=caller)
        assert first.created
        assert again.created
        assert again.subscription == first.subscription
        other = await ask(served, "CreateSubscription", name="t", caller=caller)
        assert other.reason == "REQUEST_ID_REUSED"
        assert served.world.revision == 2


async def test_a_large_step_comes_in_messages_that_clients_can_receive() -> None:
    limits = Limits(heartbeat_ms=HEARTBEAT_MS, message_bytes_max=20_000)
    async with serve_world(limits) as served:
        await ask(served, "CreateSubscription", name="s", from_revision=1, filter={"key_glob": "k*"})
        for number in range(40):
            await put(served, f"k{number}", "x" * 2000)
        stream = Stream(served)
        await stream.read_assignment()
        keys: list[str] = []
        while len(keys) < 40:
            data = await stream.call.read()
            assert len(data) <= 20_000
            events = pb.ConsumeResponse.FromString(data).events
            keys += events.keys
        assert keys == [f"k{number}" for number in range(40)]
        stream.call.cancel()


async def test_a_consumer_gets_no_more_than_it_wants_to_hold() -> None:
    async with serve_world() as served:
        await ask(served, "CreateSubscription", name="s", from_revision=1, filter={"key_glob": "k*"})
        for number in range(30):
            await put(served, f"k{number}")
        stream = Stream(served, outstanding_max=7)
        term = (await stream.read_assignment()).term
        keys: list[str] = []
        while len(keys) < 30:
            held = 0
            while held < 7 and len(keys) < 30:
                frame = await stream.read_events()
                held += frame.count
                keys += frame.keys or []
                assert held <= 7
            for _ in range(3):
                assert (await stream.read()).events.count == 0 or len(keys) == 30
            assert not isinstance(await acknowledge(served, term, frame.through_revision), Failure)
        assert keys == [f"k{number}" for number in range(30)]
        stream.call.cancel()
