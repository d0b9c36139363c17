"""A server small enough to be read at once: one world of settable keys in memory, one stream a session.

It keeps outcomes by (client id, frame number) like the real one, so that tests can count effects. What it should do
wrong is set on it: `answering = False` holds answers back, `cut()` ends streams, `is_silent` stops every message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from env_api.v1 import (
    environment_service_pb2_grpc,
    events_pb2,
    operations_pb2,
    session_pb2,
    timeline_service_pb2_grpc,
    values_pb2,
)

from tests.unit.ecumene.client.fake_timeline import FakeTimeline

BLOCK_COLUMNS = ("ints", "doubles", "strings", "json")


async def reached(condition: Callable[[], bool], at_most_s: float = 5) -> None:
    """Give the loop to others until something they do has happened; fail after `at_most_s`."""
    async with asyncio.timeout(at_most_s):
        while not condition():  # noqa: ASYNC110 - what is waited for lives on the other side of a socket
            await asyncio.sleep(0)


async def became(ask: Callable[[], Awaitable[bool]], at_most_s: float = 10) -> None:
    """Ask a server until it says yes; fail after `at_most_s`."""
    async with asyncio.timeout(at_most_s):
        while not await ask():  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.02)


class FakeStream:
    """One session stream, seen from the server."""

    def __init__(self, server: FakeServer, hello: session_pb2.Hello) -> None:
        self.server = server
        self.hello = hello
        self.received: list[session_pb2.SessionRequest] = []
        self.batches: list[int] = []
        """How many messages came in each."""
        self.outgoing: asyncio.Queue[session_pb2.SessionResponse | None] = asyncio.Queue()
        self.credits: dict[int, int] = {}
        self.cursors: dict[int, int] = {}

    def kinds(self) -> list[str]:
        """Kinds of the messages received, in order."""
        return [str(message.WhichOneof("request")) for message in self.received]

    def send(self, **response: Any) -> None:
        """Send one message."""
        if not self.server.is_silent:
            self.outgoing.put_nowait(session_pb2.SessionResponse(**response))

    def handle(self, request: session_pb2.SessionRequest) -> None:
        """Do what the message asks, or each of its batch."""
        if request.HasField("batch"):
            self.batches.append(len(request.batch.requests))
            assert sum(map(len, request.batch.requests)) <= self.server.welcome.batch_bytes_max
            for one in request.batch.requests:
                self.handle(session_pb2.SessionRequest.FromString(one))
            return
        self.received.append(request)
        kind = request.WhichOneof("request")
        if kind == "frame":
            answer = self.server.execute(self.hello.client_id, request.frame)
            if self.server.answering:
                self.send(answer=answer)
        elif kind == "ping":
            self.send(pong=session_pb2.Pong(token=request.ping.token, revision=len(self.server.log)))
        elif kind == "watch":
            self.begin_watch(request.watch)
        elif kind == "credit" and request.credit.watch_id in self.credits:
            self.credits[request.credit.watch_id] += request.credit.events
        elif kind == "cancel":
            self.cursors.pop(request.cancel.watch_id, None)
        self.server.deliver()

    def begin_watch(self, watch: session_pb2.WatchStart) -> None:
        """Begin a watch; initial state is all that was ever set."""
        if self.server.watch_refusal is not None:
            self.send(watch_ended=session_pb2.WatchEnded(watch_id=watch.watch_id, error=self.server.watch_refusal))
            return
        self.credits[watch.watch_id] = watch.credit_events
        head = len(self.server.log)
        if watch.initial_state:
            rows = list(self.server.entries)
            frame = events_pb2.EventFrame(watch_id=watch.watch_id, count=len(rows), paths=["/"], keys=rows, types=[21])
            if self.server.syncing:
                frame.synced_revision = head
            self.send(events=frame)
        self.cursors[watch.watch_id] = head + 1 if watch.initial_state else watch.from_revision or head + 1

    def deliver(self) -> None:
        """Send each watch the next events, two a frame, while it has credit."""
        for watch_id, cursor in self.cursors.items():
            while cursor <= len(self.server.log) and self.credits[watch_id] > 0:
                rows = self.server.log[cursor - 1 : cursor + 1]
                frame = events_pb2.EventFrame(
                    watch_id=watch_id,
                    count=len(rows),
                    through_revision=cursor + len(rows) - 1,
                    first_revision=cursor,
                    paths=["/"],
                    types=[4],
                    keys=[key for key, _ in rows],
                    value_kinds=[4],
                    doubles=[value for _, value in rows],
                )
                self.send(events=frame)
                self.credits[watch_id] -= len(rows)
                cursor += len(rows)
            self.cursors[watch_id] = cursor


class FakeServer(environment_service_pb2_grpc.EnvironmentServiceServicer):
    """The server; `streams` are all sessions it ever had, the last one is the one at hand."""

    def __init__(self) -> None:
        self.welcome = session_pb2.Welcome(
            world="main", history="h1", frames_in_flight_max=8, frame_ops_max=100, frame_bytes_max=1 << 20
        )
        self.welcome.heartbeat_ms = 60_000
        self.streams: list[FakeStream] = []
        self.entries: dict[str, int] = {}
        self.log: list[tuple[str, float]] = []
        self.answering = True
        self.syncing = True
        self.is_silent = False
        self.outcomes: list[operations_pb2.OpOutcome] = []
        """Outcomes of the next ops, whatever they ask; an empty one leaves its op to take effect."""
        self.watch_refusal: Any = None
        self.hello_refusal: tuple[Any, ...] | None = None
        self.answers: dict[tuple[str, int], session_pb2.FrameAnswer] = {}
        self.timeline = FakeTimeline()
        self.address = ""
        self.connected = asyncio.Event()
        self._server: grpc.aio.Server | None = None

    async def start(self, port: int = 0) -> None:
        """Listen on loopback."""
        options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", 64 << 20)]
        self._server = grpc.aio.server(options=options)
        environment_service_pb2_grpc.add_EnvironmentServiceServicer_to_server(self, self._server)
        timeline_service_pb2_grpc.add_TimelineServiceServicer_to_server(self.timeline, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port(f'127.0.0.1:{port}')}"
        await self._server.start()

    async def stop(self) -> None:
        """Stop; open streams break."""
        if self._server is not None:
            await self._server.stop(0)

    def cut(self) -> None:
        """End the stream at hand."""
        self.connected.clear()
        self.streams[-1].outgoing.put_nowait(None)

    def deliver(self) -> None:
        """Send watches what is new."""
        self.streams[-1].deliver()

    def frames(self) -> list[session_pb2.OpFrame]:
        """All op frames received, repetitions too."""
        return [m.frame for s in self.streams for m in s.received if m.WhichOneof("request") == "frame"]

    def execute(self, client_id: str, frame: session_pb2.OpFrame) -> session_pb2.FrameAnswer:
        """Take effect once a (client, number): every op sets its key."""
        known = self.answers.get((client_id, frame.seq))
        if known is not None:
            return known
        answer = session_pb2.FrameAnswer(seq=frame.seq, base_revision=len(self.log))
        for op in frame.ops:
            self.execute_op(op, answer)
            answer.count += 1
        # A block without values moves its entries, which is as much a change of theirs.
        values = next((column for name in BLOCK_COLUMNS if (column := getattr(frame.block, name))), None)
        values = [0.0] * len(frame.block.keys) if values is None else values
        for key, value in zip(frame.block.keys, values, strict=True):
            answer.versions.append(0 if self.refuse(answer) else self.put(key, value))
            answer.count += 1
        if not frame.return_versions:
            del answer.versions[:]
        answer.revision = len(self.log)
        self.answers[client_id, frame.seq] = answer
        return answer

    def execute_op(self, op: session_pb2.Op, answer: session_pb2.FrameAnswer) -> None:
        """Set, get, or refuse: a key "bad" fails with PRECONDITION_FAILED, an absent one with ENTRY_NOT_FOUND."""
        index, version = answer.count, 0
        if self.refuse(answer):
            pass
        elif op.WhichOneof("action") == "query":
            outcome = operations_pb2.OpOutcome(index=index)
            if op.key in self.entries:
                entry = values_pb2.Entry(path="/", key=op.key, kind=1, version=self.entries[op.key])  # type: ignore[arg-type]
                outcome.query.entry.CopyFrom(entry)
            else:
                outcome.error.code, outcome.error.reason = 5, 22  # type: ignore[assignment]
                outcome.error.metadata["key"] = op.key
            answer.outcomes.append(outcome)
            answer.without_revision.append(index)
        elif op.key == "bad":
            outcome = operations_pb2.OpOutcome(index=index)
            outcome.error.code, outcome.error.reason = 10, 60  # type: ignore[assignment]
            outcome.error.metadata.update({"version": "7", "revision": "9", "precondition": "version"})
            answer.outcomes.append(outcome)
            answer.without_revision.append(index)
        else:
            version = self.put(op.key, op.set_double)
        answer.versions.append(version)

    def refuse(self, answer: session_pb2.FrameAnswer) -> bool:
        """Give the op at hand the outcome that a test wants for it, if it wants one."""
        if not self.outcomes:
            return False
        outcome = self.outcomes.pop(0)
        if outcome.WhichOneof("outcome") is None:
            return False
        outcome.index = answer.count
        answer.outcomes.append(outcome)
        answer.without_revision.append(answer.count)
        return True

    def put(self, key: str, value: Any) -> int:
        """One change; returns the key's new version."""
        self.log.append((key, float(value) if isinstance(value, int | float) else 0.0))
        self.entries[key] = self.entries.get(key, 0) + 1
        return self.entries[key]

    async def Session(
        self, request_iterator: AsyncIterator[session_pb2.SessionRequest], context: Any
    ) -> AsyncIterator[session_pb2.SessionResponse]:
        """One stream."""
        hello = (await anext(request_iterator)).hello
        if self.hello_refusal is not None:
            await context.abort(*self.hello_refusal)
        stream = FakeStream(self, hello)
        self.streams.append(stream)
        welcome = session_pb2.Welcome()
        welcome.CopyFrom(self.welcome)
        welcome.revision = len(self.log)
        if not self.is_silent:
            yield session_pb2.SessionResponse(welcome=welcome)
        self.connected.set()
        reader = asyncio.create_task(self.read(request_iterator, stream), name="fake server reader")
        try:
            while (response := await stream.outgoing.get()) is not None:
                yield response
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "cut by the test")

    async def read(self, requests: AsyncIterator[session_pb2.SessionRequest], stream: FakeStream) -> None:
        """Handle what the client sends."""
        async for request in requests:
            stream.handle(request)
