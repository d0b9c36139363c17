"""The session stream: pipelined frames and multiplexed watches on one connection.

    reader task ──► World.execute ──► (durable) ──► outbox ──► this call's writer
                └─► watches, one task each ─────────┘

Nothing is made per op, and no task or future per frame: the engine's deliver puts the answer into the outbox. A frame
beyond those that may be unanswered is held until there is room; everything else that the client says passes it.
"""

import asyncio
import logging
from collections import deque

import grpc
from env_api.v1 import session_pb2, timeline_pb2

from env_server.leases.leases import Kept
from env_server.model.clock_reports import ReportVoid
from env_server.model.errors import InternalError, InvalidRequest, Reason, WorldError
from env_server.model.frames import Answer
from env_server.model.names import check_count, check_identity
from env_server.model.views import check_group
from env_server.pipeline import Welcomed, World
from env_server.rpc.decode.frames import decode_frame
from env_server.rpc.decode.timelines import decode_report
from env_server.rpc.decode.watches import check_history
from env_server.rpc.edge import Context, NewIncident, parse, report_defect
from env_server.rpc.encode.answers import encode_answer, encode_refusal
from env_server.rpc.encode.errors import encode_error
from env_server.rpc.encode.timelines import encode_report_void
from env_server.rpc.session.outbox import Events, Outbox
from env_server.rpc.session.session_watches import SessionWatches
from env_server.rpc.streams import Streams
from env_server.worlds import Worlds

HELLO_TIMEOUT_S = 10.0
BATCH_BYTES_MAX = 64 * 1024
BATCH_REQUESTS_MAX = 1000
_REFUSED = {"hello": "was said already", "batch": "must not be in another one"}

_log = logging.getLogger(__name__)


class SessionService:
    """The Session rpc."""

    def __init__(self, worlds: Worlds, streams: Streams, new_incident: NewIncident) -> None:
        self._worlds = worlds
        self._streams = streams
        self._new_incident = new_incident

    async def serve(self, _requests: object, context: Context) -> None:
        """One stream, from Hello to its end.

        Raises:
            WorldError: what the stream ends with.
        """
        with self._streams.call():
            hello = await _read_hello(context)
            check_identity(hello.client_id, "hello.client_id")
            world = await self._worlds.reach(hello.world)
            check_history(hello.history, world.name, world.history)
            check_count(len(hello.groups), "session_groups_max", world.limits)
            for group in hello.groups:
                check_group(group, world.limits, "hello.groups")
            since = hello.unanswered_since if hello.HasField("unanswered_since") else None
            stream = SessionStream(world, hello.client_id, self._new_incident, tuple(hello.groups))
            with self._streams.living(stream):
                welcomed = world.open_session(hello.client_id, since)
                try:
                    await stream.run(context, welcomed)
                finally:
                    world.timekeeping.end_reports(stream)
                    world.close_session(hello.client_id)


class SessionStream:
    """One living stream of a client."""

    def __init__(self, world: World, client_id: str, new_incident: NewIncident, groups: tuple[str, ...] = ()) -> None:
        self.world = self._world = world
        self.client_id = client_id
        self._new_incident = new_incident
        self._outbox = Outbox()
        self._groups = groups
        self._watches = SessionWatches(world, client_id, groups, self._outbox, self._report_defect)
        self._in_flight = 0
        self._frames_max = world.limits.session_frames_kept_max
        #: Frames beyond those that may be unanswered, with their sizes; they keep their order.
        self._held: deque[tuple[session_pb2.OpFrame | timeline_pb2.ClockReport, int]] = deque()
        self._held_bytes = 0
        self._letting_in = False
        #: Frames of this stream with ops that were refused for now, which the client may send again.
        self._refusals = 0
        self._frame_room = asyncio.Event()
        self._reading = True
        self._written = 0
        self._written_at_heartbeat = 0

    async def run(self, context: Context, welcomed: Welcomed) -> None:
        """Serves the stream until the client closes it, it is ended, or the connection breaks.

        Raises:
            WorldError: what it was ended with.
        """
        self._outbox.put(self._encode_welcome(welcomed))
        loop = asyncio.get_running_loop()
        reader = loop.create_task(self._read(context), name=f"session reader {self.client_id}")
        heart = loop.create_task(self._beat(), name=f"session heartbeat {self.client_id}")
        try:
            await self._write(context)
        finally:
            self._outbox.end()
            reader.cancel()
            heart.cancel()
            await self._watches.close()
            await asyncio.gather(reader, heart, return_exceptions=True)

    def go_away(self, reason: str, reconnect_after_ms: int) -> None:
        """Asks the client to finish and reconnect; answers in flight still come."""
        message = session_pb2.GoAway(reason=reason, reconnect_after_ms=reconnect_after_ms)
        self._outbox.put(session_pb2.SessionResponse(go_away=message).SerializeToString())

    def end(self, error: WorldError) -> None:
        """Ends the stream with the error's status; what is not written yet is dropped (and kept for a repetition)."""
        self._outbox.end(error)

    def _encode_welcome(self, welcomed: Welcomed) -> bytes:
        world, limits = self._world, self._world.limits
        welcome = session_pb2.Welcome(
            world=world.name,
            history=world.history,
            revision=world.durable_revision,
            frames_in_flight_max=limits.session_frames_kept_max,
            frame_ops_max=limits.frame_ops_max,
            frame_bytes_max=limits.frame_bytes_max,
            last_frame_seq=welcomed.last_seq,
            heartbeat_ms=limits.heartbeat_ms,
            position=welcomed.position,
            batch_bytes_max=BATCH_BYTES_MAX,
        )
        return session_pb2.SessionResponse(welcome=welcome).SerializeToString()

    # ---- out ----

    async def _write(self, context: Context) -> None:
        outbox, limits = self._outbox, self._world.limits
        while (item := await outbox.take()) is not None:
            if type(item) is Answer:
                for message in encode_answer(item, limits):
                    await context.write(message)
                if not item.pending:
                    self._settle()
            else:
                await context.write(item.frame if type(item) is Events else item)
            self._written += 1

    def _settle(self) -> None:
        """One frame fewer is unanswered."""
        self._in_flight -= 1
        self._let_in()
        if not self._reading and self._in_flight <= 0:
            self._outbox.end()

    async def _beat(self) -> None:
        """Says something at least every heartbeat_ms: progress marks, or a pong that nobody asked for."""
        interval_s = self._world.limits.heartbeat_ms / 1000
        while True:
            await asyncio.sleep(interval_s)
            if len(self._outbox):
                continue  # the client has something to read, or does not read: more would only pile up
            await self._watches.mark()
            if not len(self._outbox) and self._written == self._written_at_heartbeat:
                self._put_pong(0)
            self._written_at_heartbeat = self._written

    # ---- in ----

    async def _read(self, context: Context) -> None:
        try:
            while True:
                await self._outbox.wait_until_calm()
                while self._holds_enough():
                    self._frame_room.clear()
                    await self._frame_room.wait()
                data = await context.read()
                if data is grpc.aio.EOF:
                    break
                self._take(data)
        except (grpc.aio.UsageError, grpc.aio.InternalError):  # the call has ended while we read
            _log.debug("session %s: the call has ended", self.client_id)
        finally:
            self._reading = False
            if self._in_flight <= 0:
                self._outbox.end()

    def _take(self, data: bytes, *, in_batch: bool = False) -> None:
        """One message of the client; whatever is wrong with it is said in band, and the stream goes on."""
        try:
            message = parse(session_pb2.SessionRequest, data)
            kind = message.WhichOneof("request")
            if kind == "frame":
                self._hold(message.frame, len(data))
            elif kind == "clock_report":
                self._hold(message.clock_report, len(data))  # behind the ops that were sent before it
            elif kind == "acknowledge":
                self._world.acknowledge(self.client_id, message.acknowledge.seq)
            elif kind == "credit":
                self._watches.add_credit(message.credit.watch_id, message.credit.events, message.credit.bytes)
            elif kind == "watch":
                self._watches.start(message.watch)
            elif kind == "cancel":
                self._watches.cancel(message.cancel.watch_id)
            elif kind == "batch" and not in_batch:
                self._take_batch(message.batch)
            elif kind == "ping":
                self._put_pong(message.ping.token)
            elif kind == "keep_alive":
                self._world.leasing.keep(message.keep_alive.lease_ids, self._put_kept)
            else:
                problem = _REFUSED.get(kind or "", "must be set, and known")
                raise InvalidRequest(Reason.INVALID_FIELD, kind or "request", problem)
        except WorldError as error:
            self._put_error(error)
        except Exception as defect:  # noqa: BLE001 - the edge: the client learns an incident id
            self._put_error(self._report_defect(defect))

    def _take_batch(self, batch: session_pb2.RequestBatch) -> None:
        """Raises InvalidRequest: it is too large; nothing of it is taken."""
        if len(batch.requests) > BATCH_REQUESTS_MAX:
            problem = f"has {len(batch.requests)} messages, {BATCH_REQUESTS_MAX} are allowed"
            raise InvalidRequest(Reason.INVALID_FIELD, "batch", problem)
        size_bytes = sum(map(len, batch.requests))
        if size_bytes > BATCH_BYTES_MAX:
            raise InvalidRequest(
                Reason.INVALID_FIELD, "batch", f"has {size_bytes} bytes, {BATCH_BYTES_MAX} are allowed"
            )
        for data in batch.requests:
            self._take(data, in_batch=True)

    def void(self, void: ReportVoid) -> None:
        """What was reported of a participant of a clock counts no more."""
        message = encode_report_void(void)
        self._outbox.put(session_pb2.SessionResponse(clock_report_void=message).SerializeToString())

    def _hold(self, message: session_pb2.OpFrame | timeline_pb2.ClockReport, size_bytes: int) -> None:
        self._held.append((message, size_bytes))
        self._held_bytes += size_bytes
        self._let_in()

    def _let_in(self) -> None:
        """Takes frames, in their order, as long as fewer than may be are unanswered, and reports between them."""
        if self._letting_in:  # a frame was refused at once, within the loop below
            return
        self._letting_in = True
        try:
            while self._held:
                message, size_bytes = self._held[0]
                if isinstance(message, session_pb2.OpFrame) and self._in_flight >= self._frames_max:
                    break
                self._held.popleft()
                self._held_bytes -= size_bytes
                if isinstance(message, session_pb2.OpFrame):
                    self._take_frame(message, size_bytes)
                else:
                    self._take_report(message)
        finally:
            self._letting_in = False
        self._frame_room.set()

    def _holds_enough(self) -> bool:
        """Whether so many frames wait beyond those that may be unanswered that nothing more is read."""
        return len(self._held) >= self._frames_max or self._held_bytes >= self._world.limits.frame_bytes_max

    def _take_frame(self, message: session_pb2.OpFrame, size_bytes: int) -> None:
        world = self._world
        self._in_flight += 1
        try:
            frame = decode_frame(
                message, size_bytes, world.limits, world.clock, client_id=self.client_id, groups=self._groups
            )
            frame.refused_for_now = self._note_refused
            world.execute(frame, self._outbox.put)
        except WorldError as error:
            self._refuse_frame(message, error)
        except Exception as defect:  # noqa: BLE001 - the edge: of this frame nothing is known
            self._refuse_frame(message, self._report_defect(defect))

    def _take_report(self, message: timeline_pb2.ClockReport) -> None:
        try:
            report = decode_report(message, self._groups)
            if report.refusals is None or report.refusals >= self._refusals:
                self._world.timekeeping.report(report, self)
        except WorldError as error:
            self._void_later(message, error)  # it may rest on what is not on the disk yet
        except Exception as defect:  # noqa: BLE001 - the edge, as of frames
            self._void_later(message, self._report_defect(defect))

    def _void_later(self, message: timeline_pb2.ClockReport, error: WorldError) -> None:
        void = ReportVoid(message.path, message.key, message.set_revision, error)
        self._world.when_seen(lambda: self.void(void))

    def _note_refused(self) -> None:
        """What was said before this is known lets no clock go on: the op is still to come."""
        self._refusals += 1
        self._world.timekeeping.end_behind(self, self._refusals)

    def _refuse_frame(self, message: session_pb2.OpFrame, error: WorldError) -> None:
        count = len(message.ops) + len(message.block.keys)
        self._outbox.put(encode_refusal(message.seq, count, error))
        self._settle()

    def _put_pong(self, token: int) -> None:
        pong = session_pb2.Pong(token=token, revision=self._world.durable_revision)
        self._outbox.put(session_pb2.SessionResponse(pong=pong).SerializeToString())

    def _put_kept(self, kept: Kept) -> None:
        message = session_pb2.LeasesKept(lease_ids=kept.kept, ended=kept.ended)
        self._outbox.put(session_pb2.SessionResponse(leases_kept=message).SerializeToString())

    def _put_error(self, error: WorldError) -> None:
        self._outbox.put(session_pb2.SessionResponse(error=encode_error(error)).SerializeToString())

    def _report_defect(self, defect: BaseException) -> InternalError:
        return report_defect(defect, self._new_incident)


async def _read_hello(context: Context) -> session_pb2.Hello:
    """The first message.

    Raises:
        InvalidRequest: INVALID_FIELD when it is another one, or does not come within HELLO_TIMEOUT_S.
    """
    try:
        async with asyncio.timeout(HELLO_TIMEOUT_S):
            data = await context.read()
    except TimeoutError:
        problem = f"must come within {HELLO_TIMEOUT_S:.0f} s"
        raise InvalidRequest(Reason.INVALID_FIELD, "hello", problem) from None
    if data is grpc.aio.EOF:
        raise InvalidRequest(Reason.INVALID_FIELD, "hello", "must be the first message")
    message = parse(session_pb2.SessionRequest, data)
    if message.WhichOneof("request") != "hello":
        raise InvalidRequest(Reason.INVALID_FIELD, "hello", "must be the first message")
    return message.hello
