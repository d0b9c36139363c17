"""Frames under way: numbered, sent perhaps several times, each with those who wait for what comes of it.

A frame keeps its number and its bytes over reconnects; parts of an answer that came before one are forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from env_api.v1 import session_pb2

from ecumene.client.errors import EcumeneError
from ecumene.client.frame_result import FrameResult
from ecumene.client.model import Outcome
from ecumene.client.rows import Rows


class NumberedFrame(Protocol):
    """A frame with its number, and those who wait for its answer."""

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
