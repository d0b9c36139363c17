"""What a session has to send and what it waits for: frames in order, until each is wholly answered.

Every frame has a number and keeps it over reconnects, so that the server returns first outcomes to a repetition.
Single ops gather in the last waiting frame until the stream is ready for it: whatever is issued in one loop step,
or while an earlier frame is being written, travels together.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from env_api.v1 import session_pb2

from ecumene.client.backoff import Backoff
from ecumene.client.errors import ClosedError, EcumeneError, ErrorDetails, Executed
from ecumene.client.frame_result import FrameResult
from ecumene.client.model import Outcome
from ecumene.client.numbered_frames import NumberedFrame, OpBatch
from ecumene.client.reasons import LimitExceededError, QueueFullError
from ecumene.client.refused_ops import Issued, IssuedBlock, IssuedOp, RefusedOps, Touched
from ecumene.client.rows import apply_conditions, measure_row
from ecumene.client.whole_frames import WholeFrame

# Room for the envelope around the rows that a batch counts.
BATCH_SLACK_BYTES = 1024
AFTER_ANY_ROW = 1 << 32


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
    """Single ops issued and not yet sent, or refused for now and not yet sent again."""
    last_seq: int


class Outbox:
    """Frames of one client id, waiting and in flight. Lives in one event loop."""

    def __init__(self, *, wake: Callable[[], None], ops_waiting_max: int, backoff: Backoff, refusals_max: int) -> None:
        self._wake = wake
        self._refused = RefusedOps(self._issue_again, backoff, refusals_max)
        self._ops_waiting_max = ops_waiting_max
        self._limits = FrameLimits()
        self._waiting: deque[NumberedFrame] = deque()
        self._open: OpBatch | None = None
        """The last of the waiting frames, if it still takes ops."""
        self._in_flight: dict[int, NumberedFrame] = {}
        self._ops_waiting = 0
        self._held_count = 0
        self._slots: asyncio.Semaphore | None = None
        self._last_seq = 0
        self._sent_seq = 0
        self._acknowledged_seq = 0
        self._answered_seq = 0
        """The highest of which any answer has come."""
        self._position = 0
        """Where the server stood when it welcomed the stream at hand."""
        self._failure: EcumeneError | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is unanswered."""
        return not self._waiting and not self._in_flight and not len(self._refused)

    @property
    def has_unsent(self) -> bool:
        """Whether something was issued and is not sent, or was refused for now and not sent again."""
        return bool(self._waiting or len(self._refused))

    @property
    def has_in_flight(self) -> bool:
        """Whether a frame that was sent is unanswered."""
        return bool(self._in_flight)

    @property
    def unanswered_since(self) -> int:
        """Position of the stream on which the oldest frame to be sent again was sent first; 0 = there is none."""
        oldest = min(chain(islice(self._in_flight.values(), 1), islice(self._waiting, 1)), key=_get_seq, default=None)
        return oldest.since if oldest is not None and oldest.seq <= self._sent_seq else 0

    def statistics(self) -> OutboxStatistics:
        """How full it is."""
        ops_waiting = self._ops_waiting + len(self._refused)
        return OutboxStatistics(len(self._waiting), len(self._in_flight), ops_waiting, self._last_seq)

    @property
    def frame_ops_max(self) -> int:
        """Ops that the server allows in one frame."""
        return self._limits.frame_ops_max

    def welcome(self, limits: FrameLimits, last_frame_seq: int, position: int) -> None:
        """Take the server's limits; the first time, also the number to go on from."""
        self._limits = limits
        self._position = position
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
        if self._ops_waiting + len(self._refused) >= self._ops_waiting_max:
            raise QueueFullError(_refused(f"{self._ops_waiting} ops wait to be sent", "QUEUE_FULL"))
        apply_conditions(op, options)
        size, room = measure_row(path, op, options), self._limits.frame_bytes_max - BATCH_SLACK_BYTES
        if size > room:
            raise LimitExceededError.of("frame_bytes_max", room, size)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        if self._refused.must_wait(path, op):
            deadline = loop.time() + deadline_ms / 1000 if deadline_ms else math.inf
            # After all that are in a frame by now: none that joins the last one later has a key in common with it.
            self._held_count += 1
            order = (self._last_seq, AFTER_ANY_ROW + self._held_count)
            self._refused.hold(IssuedOp(path, op, options, future, deadline, order))
        else:
            self._open_batch(size).add(path, op, options, deadline_ms, future)
        return future

    async def add_frame(
        self, encode: Callable[[int], bytes], op_count: int, touch: Callable[[], Touched]
    ) -> asyncio.Future[FrameResult]:
        """Queue a frame when fewer than `frames_in_flight_max` of its kind are unanswered; wait until then.

        It waits, too, for ops that were refused for now if it would overtake one: `touch` says what it touches.

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
            touched = touch() if len(self._refused) else None
            while touched is not None and (overtaken := self._refused.list_overtaken(touched)):
                await asyncio.wait(overtaken)
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
        if frame.seq > self._sent_seq:
            self._sent_seq, frame.since = frame.seq, self._position
        return frame.encode()

    def take_answer(self, answer: session_pb2.FrameAnswer) -> None:
        """Give a part of an answer to its frame. Answers to frames that are done already are dropped."""
        self._answered_seq = max(self._answered_seq, answer.seq)
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

    def expire(self, error: EcumeneError) -> None:
        """Fail what was sent and not answered: it cannot be sent again. What was never sent goes on waiting."""
        sent = [*self._in_flight.values(), *(frame for frame in self._waiting if frame.seq <= self._sent_seq)]
        self._in_flight.clear()
        self._waiting = deque(frame for frame in self._waiting if frame.seq > self._sent_seq)
        for frame in sent:
            frame.rewind()
            frame.fail(error)

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
        self._refused.fail(error)

    def _open_batch(self, size_bytes: int) -> OpBatch:
        """The batch that takes the next op."""
        batch = self._open
        room = self._limits.frame_bytes_max - BATCH_SLACK_BYTES
        if batch is None or len(batch.futures) >= self._limits.frame_ops_max or batch.bytes + size_bytes > room:
            now = asyncio.get_running_loop().time()
            batch = self._open = OpBatch(self._next_seq(), self._refused, self._touched_behind, now)
            self._waiting.append(batch)
        batch.bytes += size_bytes
        self._ops_waiting += 1
        self._wake()
        return batch

    def _issue_again(self, issued: Issued) -> None:
        """Send what was refused, or waited behind such, under a new number, if anybody still waits for it."""
        if issued.future.done():
            self._wake()  # what stood behind it may be said
            return
        now = asyncio.get_running_loop().time()
        left_s = issued.deadline - now
        deadline_ms = 0 if left_s == math.inf else max(1, int(left_s * 1000))
        if isinstance(issued, IssuedBlock):
            request = session_pb2.SessionRequest(frame=issued.frame)
            request.frame.seq, request.frame.deadline_ms = self._last_seq + 1, deadline_ms
            self._queue(request.SerializeToString(), issued.future, _release_nothing, issued)
        else:
            self._open_batch(measure_row(issued.path, issued.op, issued.options)).add_again(issued, deadline_ms)

    def _touched_behind(self, seq: int) -> list[Touched] | None:
        """What unanswered frames after one touch; None = some are answered already."""
        if seq < self._answered_seq:
            return None
        return [frame.touched() for frame in (*self._in_flight.values(), *self._waiting) if frame.seq > seq]

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
        self._queue(payload, future, release)
        return future

    def _queue(
        self,
        payload: bytes,
        future: asyncio.Future[FrameResult],
        release: Callable[[], None],
        again: IssuedBlock | None = None,
    ) -> None:
        self._open = None
        now = asyncio.get_running_loop().time()
        seq = self._next_seq()
        frame = WholeFrame(seq, payload, future, release, self._refused, self._touched_behind, now, again)
        self._waiting.append(frame)
        self._wake()

    def _next_seq(self) -> int:
        self._last_seq += 1
        return self._last_seq


def _get_seq(frame: NumberedFrame) -> int:
    return frame.seq


def _release_nothing() -> None:
    """What repeats a part of a frame has no place of its own among those in flight: the frame keeps its."""


def _refused(message: str, reason: str) -> ErrorDetails:
    return ErrorDetails(message=message, reason=reason, executed=Executed.NO)
