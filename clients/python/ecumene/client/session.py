"""The session: one client id on one world, over one stream after another.

    start ──► open stream ──► serve: reader + writer + heartbeat ──► stream ends ──► wait ──► open ...
                                        │                                  (backoff, full jitter)
                     answers → outbox, frames → watches

What callers wait for survives the stream: frames are sent again under their numbers, watches go on where they
stood. If the server may have forgotten the client meanwhile, frames that it may have executed fail; the rest goes on.
The session ends for good when it is closed, when the server refuses it for a reason that waiting does not cure, or when
it made no progress for `reconnect_timeout_s`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from env_api.v1 import session_pb2

from ecumene.client import error_table, errors
from ecumene.client.backoff import Backoff
from ecumene.client.clock_reports import ReportTable
from ecumene.client.errors import (
    ClosedError,
    ConnectionFailedError,
    EcumeneError,
    UnavailableError,
    forget_frames,
)
from ecumene.client.frame_result import FrameResult
from ecumene.client.heartbeat import Heartbeat
from ecumene.client.lease_keeper import LeaseKeeper
from ecumene.client.model import Outcome
from ecumene.client.outbox import FrameLimits, Outbox, OutboxStatistics
from ecumene.client.outgoing import Outgoing
from ecumene.client.reasons import SessionExpiredError
from ecumene.client.refused_ops import Touched
from ecumene.client.settings import ClientSettings
from ecumene.client.stream import SessionStream, UnansweredError, raise_if_cancelled
from ecumene.client.unary_calls import UnaryCalls
from ecumene.client.watch_table import WatchTable

logger = logging.getLogger("ecumene.client")

# Without a reason of ours a status is the transport's: these may pass when the connection is made anew.
_PASSING = (errors.UnavailableError, errors.InternalError, errors.ResourceExhaustedError, errors.DeadlineExceededError)


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """How a session is doing."""

    is_connected: bool
    streams_opened: int
    revision: int
    """The newest revision that the server told of."""
    outbox: OutboxStatistics
    watches: int


class ClosedWithSession(Protocol):
    """What has tasks of its own, and ends with the session."""

    async def close(self) -> None:
        """End it."""


class Session:
    """Owns the stream, its tasks, and what survives it. Lives in one event loop."""

    def __init__(
        self,
        address: str,
        world: str,
        client_id: str,
        settings: ClientSettings,
        chance: random.Random,
        groups: Sequence[str] = (),
    ) -> None:
        self.address = address
        self.world = world
        self.client_id = client_id
        self.settings = settings
        self.groups = tuple(groups)
        self.chance = chance
        self.history = ""
        self.revision = 0
        self.reports = ReportTable(self._wake_up)
        self.calls = UnaryCalls(address, settings, settings.call_timeout_s, chance)
        self.consumers: set[ClosedWithSession] = set()
        self._backoff = Backoff(settings.backoff_first_ms, settings.backoff_ms_max, chance)
        self._outbox = Outbox(
            wake=self._wake_up,
            ops_waiting_max=settings.ops_waiting_max,
            backoff=self._backoff,
            refusals_max=settings.refusals_max,
        )
        self._outgoing = Outgoing(self._outbox, self.reports, self._wake_up)
        self.watches = WatchTable(self._outgoing.send_control)
        self.leases = LeaseKeeper(self._outgoing.send_control)
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._supervisor: asyncio.Task[None] | None = None
        self._first_welcome: asyncio.Future[None] | None = None
        self._is_connected = False
        self._reconnect_after_s = 0.0
        self._progress_at = 0.0
        self._streams_opened = 0

    async def start(self, timeout_s: float) -> None:
        """Connect for the first time.

        Raises:
            ConnectionFailedError: no server answered at the address in time; carries the last cause.
            EcumeneError: the server refused the session; the class says why.
        """
        loop = asyncio.get_running_loop()
        self._first_welcome = loop.create_future()
        self._progress_at = loop.time()
        name = f"ecumene session {self.world}/{self.client_id}"
        self._supervisor = loop.create_task(self._supervise(timeout_s), name=name)
        welcomed = False
        try:
            await self._first_welcome
            welcomed = True
        finally:
            if not welcomed:
                await self.close(flush_timeout_s=0)

    async def close(self, flush_timeout_s: float | None = None) -> None:
        """Wait for unanswered frames, at most so long, then end everything. Waiters get ClosedError."""
        flush_s = self.settings.flush_timeout_s if flush_timeout_s is None else flush_timeout_s
        if self._supervisor is None:
            return
        if flush_s > 0 and not self._outbox.is_idle:
            self._idle.clear()
            waits = {asyncio.create_task(self._idle.wait(), name="ecumene flush"), self._supervisor}
            await asyncio.wait(waits, timeout=flush_s, return_when=asyncio.FIRST_COMPLETED)
            waits.discard(self._supervisor)
            await _end_tasks(waits)
        supervisor, self._supervisor = self._supervisor, None
        await _end_tasks({supervisor})
        for consumer in list(self.consumers):
            await consumer.close()
        await self.calls.close()

    def issue(
        self, path: str, op: session_pb2.Op, options: Mapping[str, Any], deadline_ms: int = 0
    ) -> asyncio.Future[Outcome]:
        """Queue one op; see Outbox.add_op."""
        return self._outbox.add_op(path, op, options, deadline_ms)

    async def submit(
        self, encode: Callable[[int], bytes], op_count: int, touch: Callable[[], Touched]
    ) -> asyncio.Future[FrameResult]:
        """Queue a frame; see Outbox.add_frame."""
        return await self._outbox.add_frame(encode, op_count, touch)

    @property
    def frame_ops_max(self) -> int:
        """Ops that the server allows in one frame."""
        return self._outbox.frame_ops_max

    def statistics(self) -> SessionStatistics:
        """How it is doing."""
        return SessionStatistics(
            self._is_connected, self._streams_opened, self.revision, self._outbox.statistics(), len(self.watches)
        )

    async def _supervise(self, connect_timeout_s: float) -> None:
        failure: EcumeneError = ClosedError("the session ended by a defect of the client")
        try:
            failure = await self._keep_connected(connect_timeout_s)
        except asyncio.CancelledError:
            failure = ClosedError()
            raise
        finally:
            self._outbox.fail(failure)
            self.watches.fail(failure)
            self.leases.fail(failure)
            if self._first_welcome is not None and not self._first_welcome.done():
                self._first_welcome.set_exception(failure)

    async def _keep_connected(self, patience_s: float) -> EcumeneError:
        """Open and serve streams until that has no use any more; returns why."""
        cause: EcumeneError | None = None
        while True:
            try:
                stream = await self._open(patience_s)
                patience_s = self.settings.reconnect_timeout_s
                ended = await self._serve(stream)
            except EcumeneError as error:
                ended = error
            raise_if_cancelled()
            forget_frames(ended)
            if isinstance(ended, SessionExpiredError) and self._outbox.unanswered_since:
                # Under the same client id, which nobody knows any more: what is still to be sent has new numbers.
                logger.warning("session %s/%s: %s", self.world, self.client_id, ended)
                self._outbox.expire(ended)
                continue
            if not _may_pass(ended):
                return ended
            # The last attempt is cut short by the end of patience; what an earlier one was told is worth more.
            if cause is None or not isinstance(ended, UnansweredError):
                cause = ended
            if not await self._wait(ended, patience_s):
                return ConnectionFailedError(self.address, patience_s, cause)

    async def _open(self, patience_s: float) -> SessionStream:
        left_s = self._progress_at + patience_s - asyncio.get_running_loop().time()
        hello = session_pb2.Hello(
            world=self.world,
            client_id=self.client_id,
            history=self.history,
            groups=self.groups,
            user_agent="ecumene-python",
            unanswered_since=self._outbox.unanswered_since,
        )
        attempt_s = max(0.001, min(left_s, self.settings.attempt_timeout_s))
        return await SessionStream.open(self.address, hello, self.settings, attempt_s)

    async def _wait(self, cause: EcumeneError, patience_s: float) -> bool:
        """Wait before the next attempt; False when there is no time left for one."""
        loop = asyncio.get_running_loop()
        advised_s, self._reconnect_after_s = max(cause.retry_delay_s, self._reconnect_after_s), 0.0
        delay_s = self._backoff.next_delay_s(advised_s)
        left_s = self._progress_at + patience_s - loop.time()
        logger.info("session %s/%s: %s; next attempt in %.2f s", self.world, self.client_id, cause, delay_s)
        await asyncio.sleep(max(0.0, min(delay_s, left_s)))
        return delay_s < left_s

    async def _serve(self, stream: SessionStream) -> EcumeneError:
        """Use a stream until it ends; returns why it ended."""
        welcome = stream.welcome
        interval_ms = welcome.heartbeat_ms or self.settings.heartbeat_default_ms
        silence_s = interval_ms * self.settings.heartbeats_missed_max / 1000
        heartbeat = Heartbeat(silence_s)
        opened_at = asyncio.get_running_loop().time()
        self._attach(welcome)
        name = f"{self.world}/{self.client_id}"
        loop = asyncio.get_running_loop()
        reader = loop.create_task(self._read(stream, heartbeat), name=f"ecumene reader {name}")
        writer = loop.create_task(self._write(stream), name=f"ecumene writer {name}")
        try:
            ends: set[asyncio.Future[Any]] = {reader, writer, heartbeat.silence}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if heartbeat.silence.done():
                return UnavailableError(f"{self.address} was silent for {silence_s:.1f} s")
            if not reader.done():
                # The writer met the end first; the reader is told why.
                await asyncio.wait({reader}, timeout=1)
            return reader.result() if reader.done() else writer.result()
        finally:
            heartbeat.stop()
            self._detach(opened_at, silence_s)
            await _end_tasks({reader, writer})
            await stream.close()

    def _attach(self, welcome: session_pb2.Welcome) -> None:
        self._is_connected = True
        self._streams_opened += 1
        self.world = welcome.world or self.world
        self.history = welcome.history
        self.revision = max(self.revision, welcome.revision)
        limits = FrameLimits(
            frames_in_flight_max=welcome.frames_in_flight_max or FrameLimits().frames_in_flight_max,
            frame_ops_max=welcome.frame_ops_max or FrameLimits().frame_ops_max,
            frame_bytes_max=min(
                welcome.frame_bytes_max or FrameLimits().frame_bytes_max, self.settings.message_bytes_max
            ),
        )
        self._outgoing.attach(welcome.batch_bytes_max)
        self._outbox.welcome(limits, welcome.last_frame_seq, welcome.position)
        self.watches.attach(self.history)
        self.leases.attach()
        self.reports.attach()
        self._wake_up()
        if self._first_welcome is not None and not self._first_welcome.done():
            self._progress_at = asyncio.get_running_loop().time()
            self._first_welcome.set_result(None)

    def _detach(self, opened_at: float, silence_s: float) -> None:
        self._is_connected = False
        now = asyncio.get_running_loop().time()
        # A frame that breaks every stream it is sent on must not be sent for ever: only streams that lasted, or
        # that left nothing unanswered, start the patience anew.
        if now - opened_at > silence_s or self._outbox.is_idle:
            self._progress_at = now
        self._outgoing.detach()
        self.watches.detach()
        self.leases.detach()

    async def _read(self, stream: SessionStream, heartbeat: Heartbeat) -> EcumeneError:
        try:
            while (received := await stream.read()) is not None:
                heartbeat.beat()
                self._dispatch(*received)
        except EcumeneError as error:
            return error
        return UnavailableError("the server ended the stream")

    def _dispatch(self, size_bytes: int, response: session_pb2.SessionResponse) -> None:
        kind = response.WhichOneof("response")
        if kind == "answer":
            self.revision = max(self.revision, response.answer.revision)
            self._outbox.take_answer(response.answer)
            self.reports.take_answer(response.answer)
            self._outgoing.acknowledge()
            self._note_progress()
        elif kind == "events":
            self.watches.take_frame(response.events, size_bytes)
            self._note_progress()
        elif kind == "watch_ended":
            self.watches.take_end(response.watch_ended)
        elif kind == "leases_kept":
            self.leases.take_kept(response.leases_kept)
        elif kind == "clock_report_void":
            self.reports.take_void(response.clock_report_void)
        elif kind == "pong":
            self.revision = max(self.revision, response.pong.revision)
            self.watches.take_pong(response.pong)
        elif kind == "go_away":
            self._outgoing.is_draining = True
            self._reconnect_after_s = response.go_away.reconnect_after_ms / 1000
            self._wake_up()
        elif kind == "error":
            logger.warning("session %s: %s", self.client_id, error_table.from_message(response.error))

    async def _write(self, stream: SessionStream) -> EcumeneError:
        try:
            while True:
                self._wake.clear()
                # Whoever was woken together with the writer may have something to say, too: it travels together.
                await asyncio.sleep(0)
                while (message := self._outgoing.gather()) is not None:
                    await stream.write(message)
                if self._outbox.is_idle:
                    self._idle.set()
                if self._outgoing.is_draining and not self._outbox.has_in_flight:
                    return UnavailableError("the server is about to stop")
                await self._wake.wait()
        except EcumeneError as error:
            return error

    def _note_progress(self) -> None:
        self._progress_at = asyncio.get_running_loop().time()
        self._backoff.reset()

    def _wake_up(self) -> None:
        self._wake.set()


def _may_pass(error: EcumeneError) -> bool:
    """Whether the same attempt may succeed later."""
    if error.reason:
        return isinstance(error, errors.UnavailableError | errors.ResourceExhaustedError)
    return isinstance(error, _PASSING)


async def _end_tasks(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, Exception):
            raise ended
