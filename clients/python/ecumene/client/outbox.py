"""What a session has to send and what it waits for: frames in order, until each is wholly answered.

Every frame has a number and keeps it over reconnects, so that the server returns first outcomes to a repetition.
Single ops gather in the last waiting frame until the stream is ready for it: whatever is issued in one loop step,
or while an earlier frame is being written, travels together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from env_api.v1 import session_pb2

from ecumene.client.errors import ClosedError, EcumeneError, ErrorDetails, Executed
from ecumene.client.frame_result import FrameResult
from ecumene.client.model import Outcome
from ecumene.client.reasons import LimitExceededError, QueueFullError
from ecumene.client.rows import Rows, apply_conditions, measure_row

# Room for the envelope around the rows that a batch counts.
BATCH_SLACK_BYTES = 1024


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """What the server allows, from its Welcome."""

    frames_in_flight_max: int = 1
    frame_ops_max: int = 4096
    frame_bytes_max: int = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class OutboxStatistics:
    """How full an outbox is."""

    frames_waiting: int
    frames_in_flight: int
    ops_waiting: int
    """Single ops issued and not yet sent."""
    last_seq: int


class Frame(Protocol):
    """A numbered frame and those who wait for its answer."""

    seq: int

    def encode(self) -> bytes:
        """The message; the same bytes each time."""

    def take(self, answer: session_pb2.FrameAnswer) -> bool:
        """Take a part of the answer; True when nothing more is to come."""

    def rewind(self) -> None:
        """Forget parts taken so far: the frame is sent anew and answered anew."""

    def fail(self, error: EcumeneError) -> None:
        """End all waiting with an error."""


class AnswerParts:
    """Parts of one frame's answer, in order."""

    __slots__ = ("first_group", "pending", "received")

    def __init__(self) -> None:
        self.received: list[session_pb2.FrameAnswer] = []
        self.first_group = 0
        self.pending: set[int] = set()

    def take(self, answer: session_pb2.FrameAnswer) -> bool:
        """Add a part; True when it ends a group, so that whatever is not in `pending` is answered."""
        if not (self.received and self.received[-1].more):
            self.pending.clear()
        self.received.append(answer)
        self.pending.update(answer.pending)
        if answer.more:
            return False
        self.first_group = self.first_group or len(self.received)
        return True

    def result(self) -> FrameResult:
        """The view on what was received."""
        return FrameResult(self.received, self.first_group)


class WholeFrame:
    """A frame with one future for all its ops."""

    __slots__ = ("_parts", "_payload", "_release", "future", "seq")

    def __init__(
        self, seq: int, payload: bytes, future: asyncio.Future[FrameResult], release: Callable[[], None]
    ) -> None:
        self.seq = seq
        self.future = future
        self._release = release
        self._payload = payload
        self._parts: AnswerParts | None = None

    def encode(self) -> bytes:
        return self._payload

    def take(self, answer: session_pb2.FrameAnswer) -> bool:
        if self._parts is None:
            if not answer.more and not answer.pending:
                self._finish(FrameResult([answer]))
                return True
            self._parts = AnswerParts()
        if self._parts.take(answer) and not self._parts.pending:
            self._finish(self._parts.result())
            return True
        return False

    def rewind(self) -> None:
        self._parts = None

    def fail(self, error: EcumeneError) -> None:
        self._release()
        if not self.future.done():
            self.future.set_exception(error)

    def _finish(self, result: FrameResult) -> None:
        # Not when the future is done: whoever stops waiting does not take the frame off the wire.
        self._release()
        if not self.future.done():
            self.future.set_result(result)


class OpBatch:
    """Single ops that travel together, each with its own future."""

    __slots__ = ("_deadlines_ms", "_parts", "_payload", "bytes", "futures", "rows", "seq")

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.rows = Rows()
        self.bytes = 0
        self.futures: list[asyncio.Future[Outcome]] = []
        self._deadlines_ms: list[int] = []
        self._payload = b""
        self._parts = AnswerParts()

    def add(
        self,
        path: str,
        op: session_pb2.Op,
        options: Mapping[str, Any],
        deadline_ms: int,
        future: asyncio.Future[Outcome],
    ) -> None:
        """Add an op and who waits for it."""
        self.rows.append(path, op, options)
        self.futures.append(future)
        self._deadlines_ms.append(deadline_ms)

    def encode(self) -> bytes:
        if not self._payload:
            # One deadline a frame: an op without one must not fall to another's.
            deadline_ms = max(self._deadlines_ms) if min(self._deadlines_ms) else 0
            self._payload = self.rows.encode(self.seq, return_versions=True, deadline_ms=deadline_ms)
        return self._payload

    def take(self, answer: session_pb2.FrameAnswer) -> bool:
        if not self._parts.take(answer):
            return False
        result, pending = self._parts.result(), self._parts.pending
        for index, future in enumerate(self.futures):
            if not future.done() and index not in pending:
                outcome = result.peek(index)
                if isinstance(outcome, EcumeneError):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
        return not pending

    def rewind(self) -> None:
        self._parts = AnswerParts()

    def fail(self, error: EcumeneError) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(error)


class Outbox:
    """Frames of one client id, waiting and in flight. Lives in one event loop."""

    def __init__(self, *, wake: Callable[[], None], ops_waiting_max: int) -> None:
        self._wake = wake
        self._ops_waiting_max = ops_waiting_max
        self._limits = FrameLimits()
        self._waiting: deque[Frame] = deque()
        self._open: OpBatch | None = None
        """The last of the waiting frames, if it still takes ops."""
        self._in_flight: dict[int, Frame] = {}
        self._ops_waiting = 0
        self._slots: asyncio.Semaphore | None = None
        self._last_seq = 0
        self._sent_seq = 0
        self._acknowledged_seq = 0
        self._failure: EcumeneError | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is unanswered."""
        return not self._waiting and not self._in_flight

    @property
    def has_in_flight(self) -> bool:
        """Whether a frame that was sent is unanswered."""
        return bool(self._in_flight)

    def statistics(self) -> OutboxStatistics:
        """How full it is."""
        return OutboxStatistics(len(self._waiting), len(self._in_flight), self._ops_waiting, self._last_seq)

    def welcome(self, limits: FrameLimits, last_frame_seq: int) -> None:
        """Take the server's limits; the first time, also the number to go on from."""
        self._limits = limits
        if self._slots is None:
            self._slots = asyncio.Semaphore(limits.frames_in_flight_max)
            self._last_seq = self._sent_seq = self._acknowledged_seq = last_frame_seq
        for frame in self._in_flight.values():
            frame.rewind()
        self._waiting.extendleft(reversed(self._in_flight.values()))
        self._in_flight.clear()

    def add_op(
        self, path: str, op: session_pb2.Op, options: Mapping[str, Any], deadline_ms: int = 0
    ) -> asyncio.Future[Outcome]:
        """Queue one op behind everything issued before it; the future has its outcome or its error.

        Raises:
            LimitExceededError: it does not fit any frame.
            QueueFullError: too many ops wait to be sent.
            EcumeneError: the session ended.
        """
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._ops_waiting >= self._ops_waiting_max:
            raise QueueFullError(_refused(f"{self._ops_waiting} ops wait to be sent", "QUEUE_FULL"))
        apply_conditions(op, options)
        size, room = measure_row(path, op, options), self._limits.frame_bytes_max - BATCH_SLACK_BYTES
        if size > room:
            raise LimitExceededError.of("frame_bytes_max", room, size)
        batch = self._open
        if batch is None or len(batch.futures) >= self._limits.frame_ops_max or batch.bytes + size > room:
            batch = self._open = OpBatch(self._next_seq())
            self._waiting.append(batch)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        batch.add(path, op, options, deadline_ms, future)
        batch.bytes += size
        self._ops_waiting += 1
        self._wake()
        return future

    async def add_frame(self, encode: Callable[[int], bytes], op_count: int) -> asyncio.Future[FrameResult]:
        """Queue a frame when fewer than `frames_in_flight_max` of its kind are unanswered; wait until then.

        Raises:
            LimitExceededError: it has more ops or bytes than a frame may have.
            EcumeneError: the session ended.
        """
        if self._slots is None:
            raise ClosedError("the session is not open yet")
        slots = self._slots
        await slots.acquire()
        queued = False
        try:
            future = self._queue_frame(encode, op_count, slots.release)
            queued = True
        finally:
            if not queued:
                slots.release()
        return future

    def next_message(self) -> bytes | None:
        """The next frame to send, in order; None while there is none or the server has its fill."""
        if not self._waiting or len(self._in_flight) >= self._limits.frames_in_flight_max:
            return None
        frame = self._waiting.popleft()
        if isinstance(frame, OpBatch):
            if frame is self._open:
                self._open = None
            if frame.seq > self._sent_seq:
                self._ops_waiting -= len(frame.futures)
        self._in_flight[frame.seq] = frame
        self._sent_seq = max(self._sent_seq, frame.seq)
        return frame.encode()

    def take_answer(self, answer: session_pb2.FrameAnswer) -> None:
        """Give a part of an answer to its frame. Answers to frames that are done already are dropped."""
        frame = self._in_flight.get(answer.seq)
        if frame is not None and frame.take(answer):
            del self._in_flight[answer.seq]
            self._wake()

    def next_acknowledgement(self) -> int | None:
        """Number up to which all is answered, if enough gathered to tell the server; then it counts as told."""
        through = next(iter(self._in_flight)) - 1 if self._in_flight else self._sent_seq
        # Frames that wait to be sent again lie below those in flight.
        if self._waiting:
            through = min(through, self._waiting[0].seq - 1)
        if through - self._acknowledged_seq < max(1, self._limits.frames_in_flight_max // 4):
            return None
        self._acknowledged_seq = through
        return through

    def fail(self, error: EcumeneError) -> None:
        """End everything that waits, now and later, with an error."""
        self._failure = error
        frames = [*self._in_flight.values(), *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        self._open = None
        self._ops_waiting = 0
        for frame in frames:
            frame.fail(error)

    def _queue_frame(
        self, encode: Callable[[int], bytes], op_count: int, release: Callable[[], None]
    ) -> asyncio.Future[FrameResult]:
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if op_count > self._limits.frame_ops_max:
            raise LimitExceededError.of("frame_ops_max", self._limits.frame_ops_max, op_count)
        # The number is taken only when the frame is known to fit: numbers have no gaps.
        payload = encode(self._last_seq + 1)
        if len(payload) > self._limits.frame_bytes_max:
            raise LimitExceededError.of("frame_bytes_max", self._limits.frame_bytes_max, len(payload))
        future: asyncio.Future[FrameResult] = asyncio.get_running_loop().create_future()
        self._open = None
        self._waiting.append(WholeFrame(self._next_seq(), payload, future, release))
        self._wake()
        return future

    def _next_seq(self) -> int:
        self._last_seq += 1
        return self._last_seq


def _refused(message: str, reason: str) -> ErrorDetails:
    return ErrorDetails(message=message, reason=reason, executed=Executed.NO)
