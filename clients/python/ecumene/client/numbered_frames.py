"""Frames under way: numbered, sent perhaps several times, each with those who wait for what comes of it.

A frame keeps its number and its bytes over reconnects; parts of an answer that came before one are forgotten.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from env_api.v1 import session_pb2

from ecumene.client.errors import EcumeneError
from ecumene.client.frame_result import FrameResult
from ecumene.client.model import Outcome
from ecumene.client.refused_ops import IssuedOp, RefusedOps, Touched, may_pass
from ecumene.client.rows import Rows

Behind = Callable[[int], Sequence[Touched] | None]
"""Number of a frame → what unanswered frames after it touch; None = some are answered already."""


class NumberedFrame(Protocol):
    """A frame with its number, and those who wait for its answer."""

    seq: int
    since: int
    """Position of the stream on which it was sent first."""

    def encode(self) -> bytes:
        """The message; the same bytes each time."""

    def take(self, answer: session_pb2.FrameAnswer) -> bool:
        """Take a part of the answer; True when nothing more is to come."""

    def rewind(self) -> None:
        """Forget parts taken so far: the frame is sent anew and answered anew."""

    def touched(self) -> Touched:
        """What its ops touch."""

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


class OpBatch:
    """Single ops that travel together, each with its own future.

    Those that the server refused for now wait in `refused_ops` to be issued again, if nothing `behind` can have
    overtaken them.
    """

    __slots__ = (
        "_behind",
        "_deadlines_ms",
        "_held",
        "_issued_at",
        "_parts",
        "_payload",
        "_refused_before",
        "_refused_ops",
        "_touched",
        "bytes",
        "futures",
        "rows",
        "seq",
        "since",
    )

    def __init__(self, seq: int, refused_ops: RefusedOps, behind: Behind, now: float) -> None:
        self.seq = seq
        self.since = 0
        self.rows = Rows()
        self.bytes = 0
        self.futures: list[asyncio.Future[Outcome]] = []
        self._deadlines_ms: list[int] = []
        self._issued_at = now
        self._payload = b""
        self._parts = AnswerParts()
        self._refused_ops = refused_ops
        self._behind = behind
        self._refused_before: dict[int, IssuedOp] = {}
        self._held: dict[int, IssuedOp] = {}
        """Refused ops of this very batch that wait elsewhere, while others of it are not answered yet."""
        self._touched = Touched()

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

    def add_again(self, issued: IssuedOp, deadline_ms: int) -> None:
        """Add an op that was refused before."""
        self._refused_before[len(self.futures)] = issued
        self.add(issued.path, issued.op, issued.options, deadline_ms, issued.future)

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
        refused: dict[int, EcumeneError] = {}
        for index, future in enumerate(self.futures):
            if not future.done() and index not in pending and index not in self._held:
                outcome = result.peek(index)
                if not isinstance(outcome, EcumeneError):
                    future.set_result(outcome)
                elif may_pass(outcome):
                    refused[index] = outcome
                else:
                    future.set_exception(outcome)
        if refused:
            self._hold(refused, is_final=not pending)
        if not pending and self._held:
            self._refused_ops.release(self._held.values())
        return not pending

    def rewind(self) -> None:
        self._parts = AnswerParts()
        if self._held:
            self._refused_ops.withdraw(self._held.values())
            self._refused_before |= self._held
            self._held = {}

    def touched(self) -> Touched:
        self._touched.add_rows(self.rows)
        return self._touched

    def fail(self, error: EcumeneError) -> None:
        for future in self.futures:
            if not future.done():
                future.set_exception(error)

    def _hold(self, refused: Mapping[int, EcumeneError], *, is_final: bool) -> None:
        """Let those wait that nothing behind them can have overtaken; the others fail."""
        behind, here = self._behind(self.seq), Touched()
        places = list(self.rows.places())
        may_wait: list[tuple[IssuedOp, EcumeneError]] = []
        indexes: dict[int, int] = {}
        for index in reversed(range(len(places))):
            if index not in refused:
                here.add(*places[index])
                continue
            issued = self._issued(index)
            if behind is not None and not any(touched.bars(issued) for touched in (*behind, here)):
                may_wait.append((issued, refused[index]))
                indexes[id(issued)] = index
            elif not issued.future.done():
                issued.future.set_exception(refused[index])
        if may_wait:
            held = self._refused_ops.hold_refused(may_wait[::-1], is_final=is_final)
            self._held.update((indexes[id(op)], op) for op in held if not is_final)

    def _issued(self, index: int) -> IssuedOp:
        known = self._refused_before.get(index)
        if known is not None:
            return known
        path, op, options = self.rows.row(index)
        deadline_ms = self._deadlines_ms[index]
        deadline = self._issued_at + deadline_ms / 1000 if deadline_ms else math.inf
        return IssuedOp(path, op, options, self.futures[index], deadline, (self.seq, index))
