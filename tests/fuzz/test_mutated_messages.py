"""Whatever bytes come in: a known answer goes out, nothing of ours leaks, and the world is as it was."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from env_api.v1 import environment_service_pb2 as service
from env_api.v1 import (
    errors_pb2,
    lease_service_pb2,
    queries_pb2,
    session_pb2,
    subscription_service_pb2,
    timeline_pb2,
    values_pb2,
    world_service_pb2,
)
from env_api.v1 import operations_pb2 as operations
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2

from tests.fuzz.messages import encode, fill
from tests.raw_client import SERVICE, Failure, call, decode_call_error
from tests.services import ServerProcess

CALLS, CALLS_LONG = 2000, 30_000
SESSIONS, SESSIONS_LONG = 150, 3000
AT_A_TIME = 32
REQUESTS = [
    field.name for field in session_pb2.SessionRequest.DESCRIPTOR.fields if field.name not in ("frame", "batch")
]
GROWTH_BYTES_MAX = 400 << 20
SESSION_S = 0.3
COLUMNS = ("producers", "producer_seqs", "gate_generations", "expect_versions", "actors", "causes", "groups")
SERVICES = (
    (service, "EnvironmentService"),
    (world_service_pb2, "WorldService"),
    (lease_service_pb2, "LeaseService"),
    (subscription_service_pb2, "SubscriptionService"),
)
WORLD_NAMES = (
    world_service_pb2.DeleteWorldRequest,
    world_service_pb2.CreateWorldRequest,
    world_service_pb2.ForkWorldRequest,
    world_service_pb2.RestoreWorldRequest,
)
PATHS = ["/known", "/", "/known/reports", "", "/absent", "no path"]


class Tally:
    """What came back, and what must not."""

    def __init__(self) -> None:
        self.answered = 0
        self.wrong: list[Any] = []

    def take(self, what: object, reason: int | str) -> None:
        """One error; INTERNAL is a defect of ours, no reason at all an error that is not ours."""
        self.answered += 1
        if reason in ("INTERNAL", "", errors_pb2.ERROR_REASON_INTERNAL, errors_pb2.ERROR_REASON_UNSPECIFIED):
            self.wrong.append(what)


def spare(message: Any) -> Any:
    """Keeps a random request away from what is compared at the end."""
    if getattr(message, "path", "") in ("/", "/safe"):
        message.path = "/known"
    if isinstance(message, WORLD_NAMES):
        message.name = "fuzzed"  # each world is a directory
    if isinstance(message, world_service_pb2.SnapshotWorldRequest):
        message.name = f"fuzzed-{len(message.name) % 5}"  # and so is each snapshot
    return message


async def send_calls(channel: grpc.aio.Channel, rng: random.Random, count: int, tally: Tally) -> None:
    kinds = [
        (f"/{described.full_name}/{method.name}", GetMessageClass(method.input_type))
        for module, name in SERVICES
        for described in (module.DESCRIPTOR.services_by_name[name],)
        for method in described.methods
        if method.name not in ("Session", "Monitor", "Consume")
    ]
    room = asyncio.Semaphore(AT_A_TIME)

    async def one(name: str, data: bytes) -> None:
        async with room:
            try:
                await channel.unary_unary(name)(data, timeout=30)
                tally.answered += 1
            except grpc.aio.AioRpcError as error:
                failure = decode_call_error(error)
                tally.take((name, data.hex(), failure), failure.reason)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            name, kind = rng.choice(kinds)
            tasks.create_task(one(name, encode(rng, spare(fill(rng, kind())))))


def make_frame(rng: random.Random) -> session_pb2.OpFrame:
    """A frame whose path table is plausible, and whose columns fit more often than chance would have it."""
    frame: session_pb2.OpFrame = fill(rng, session_pb2.OpFrame(), 0.5, 1)
    if rng.random() < 0.7:
        frame.seq = rng.randrange(1, 20)
        for column in COLUMNS:
            if rng.random() < 0.8:
                frame.ClearField(column)  # type: ignore[arg-type]
    del frame.paths[:]
    frame.paths.extend(rng.choice(PATHS) for _ in range(rng.randrange(1, 4)))
    return frame


def make_request(rng: random.Random) -> bytes:
    """A message of a session other than a batch."""
    request = session_pb2.SessionRequest()
    if rng.random() < 0.5:
        request.frame.CopyFrom(make_frame(rng))
    else:
        kind = rng.choice(REQUESTS)
        getattr(request, kind).SetInParent()
        fill(rng, getattr(request, kind), 0.5, 1)
    if request.WhichOneof("request") == "clock_report" and rng.random() < 0.7:
        request.clock_report.path, request.clock_report.key = "/known/town", rng.choice(["bob", "ann"])
        request.clock_report.ClearField("fence")
    return encode(rng, request) if rng.random() < 0.3 else request.SerializePartialToString()


def make_batch(rng: random.Random) -> bytes:
    """Many of them as one: few, a flood of tiny ones, too many, or more than it may weigh; at times one in another."""
    kind = rng.randrange(8)
    if kind == 0:
        parts = [rng.choice([b"", b"\x3a\x00", b"\xff"])] * rng.choice([900, 1000, 1001, 300_000])
    elif kind == 1:
        parts = [bytes(rng.choice([65_536, 65_537, 3_000_000]))]
    else:
        parts = [make_request(rng) for _ in range(rng.choice([0, 1, 2, 5, 20, 100]))]
    if kind == 2:
        parts.append(make_batch(rng))
    batch = session_pb2.SessionRequest(batch=session_pb2.RequestBatch(requests=parts))
    return encode(rng, batch) if rng.random() < 0.3 else batch.SerializeToString()


async def run_session(channel: grpc.aio.Channel, rng: random.Random, tally: Tally) -> None:
    """A stream of messages of all kinds; now and then without a hello, cut short, or half closed."""
    stream: Any = channel.stream_stream(SERVICE + "Session")()

    async def read() -> None:
        while (data := await stream.read()) is not grpc.aio.EOF:
            response = session_pb2.SessionResponse.FromString(data)
            if response.HasField("error"):
                tally.take(("session", response.error), response.error.reason)
            for outcome in response.answer.outcomes:
                if outcome.HasField("error"):
                    tally.take(("frame", outcome.error), outcome.error.reason)

    reader = asyncio.create_task(read(), name="reader")
    try:
        if rng.random() < 0.95:
            hello = session_pb2.Hello(client_id=f"c{rng.randrange(30)}")
            await stream.write(session_pb2.SessionRequest(hello=hello).SerializeToString())
        for _ in range(rng.randrange(1, 30)):
            await stream.write(make_batch(rng) if rng.random() < 0.2 else make_request(rng))
        if rng.random() < 0.5:
            await stream.done_writing()
        await asyncio.wait([reader], timeout=rng.random() * SESSION_S)
    except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
        pass  # the server has ended the stream; with which status is asked below
    finally:
        stream.cancel()
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def check_unharmed(channel: grpc.aio.Channel) -> None:
    get = queries_pb2.Query(get=queries_pb2.Get())
    kept = await call(channel, "query", path="/safe", key="entry", query=get)
    assert not isinstance(kept, Failure), kept
    assert (kept.result.entry.value.string_value, kept.result.entry.version) == ("kept", 1)
    health = channel.unary_unary("/grpc.health.v1.Health/Check")
    answer = health_pb2.HealthCheckResponse.FromString(await health(b"", timeout=10))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def end_what_grpc_left() -> None:
    """A write that fails since the server has ended the stream leaves grpc's own task waiting for a status for ever."""
    left = [task for task in asyncio.all_tasks() if "_handle_status_once_received" in repr(task)]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def run(directory: Path, seed: int, calls: int, sessions: int) -> None:
    tally = Tally()
    with ServerProcess(directory / "data") as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            await call(channel, "register", path="/known", register=operations.Register(kind="guess_game"))
            clock = timeline_pb2.Clock(mode=timeline_pb2.CLOCK_MODE_EVENT_DRIVEN)
            await call(channel, "register", path="/known/town", register=operations.Register(clock=clock))
            await call(channel, "register", path="/safe", register=operations.Register())
            update = operations.Update(set=values_pb2.Value(string_value="kept"))
            await call(channel, "update", path="/safe", key="entry", update=update)
            before = psutil.Process(server.pid).memory_info().rss
            await send_calls(channel, random.Random(seed), calls, tally)
            room = asyncio.Semaphore(AT_A_TIME)

            async def one(number: int) -> None:
                async with room:
                    await run_session(channel, random.Random(f"{seed}-{number}"), tally)

            await asyncio.gather(*(one(number) for number in range(sessions)))
            await check_unharmed(channel)
            assert psutil.Process(server.pid).memory_info().rss - before < GROWTH_BYTES_MAX
        await end_what_grpc_left()
        assert tally.answered > calls
        assert not tally.wrong[:3], f"seed {seed}"
        assert "Traceback" not in server.log_path.read_text()
        assert server.stop() == 0
        server.start()
        async with grpc.aio.insecure_channel(server.address) as channel:
            await check_unharmed(channel)


async def test_mutated_messages_harm_nothing(tmp_path: Path, seed: int) -> None:
    await run(tmp_path, seed, CALLS, SESSIONS)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_many_mutated_messages_harm_nothing(tmp_path: Path, seed: int) -> None:
    await run(tmp_path, seed, CALLS_LONG, SESSIONS_LONG)
