"""Frames that were built as a whole, in rows or in columns, with one future for all their ops.

Those of its ops that the server refused for now are issued again as single ops are, if nothing behind can have
overtaken them: rows one by one in the frames to come, a block as a smaller block. The future has its result when all is
answered.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from env_api.v1 import session_pb2

from ecumene.client.errors import EcumeneError
from ecumene.client.frame_result import FrameResult
from ecumene.client.model import Outcome
from ecumene.client.numbered_frames import AnswerParts, Behind
from ecumene.client.refused_ops import PASSING_REASONS, IssuedBlock, IssuedOp, RefusedOps, Touched, may_pass
from ecumene.client.rows import read_row, select_block


class WholeFrame:
    """A frame with one future for all its ops; `release` is called when it is done."""

    __slots__ = (
        "_again",
        "_behind",
        "_issued_at",
        "_parts",
        "_payload",
        "_refused_ops",
        "_release",
        "_touched",
        "future",
        "seq",
        "since",
    )

    def __init__(
        self,
        seq: int,
        payload: bytes,
        future: asyncio.Future[FrameResult],
        release: Callable[[], None],
        refused_ops: RefusedOps,
        behind: Behind,
        now: float,
        again: IssuedBlock | None = None,
    ) -> None:
        """`again`: what it repeats, of a frame that was refused in part."""
        self.seq = seq
        self.since = 0
        self.future = future
        self._release = release
        self._payload = payload
        self._parts: AnswerParts | None = None
        self._refused_ops = refused_ops
        self._behind = behind
        self._issued_at = now
        self._again = again
        self._touched: Touched | None = None

    def encode(self) -> bytes:
        return self._payload

    def take(self, answer: session_pb2.FrameAnswer) -> bool:
        if self._parts is None:
            if not answer.more and not answer.pending:
                self._settle(FrameResult([answer]))
                return True
            self._parts = AnswerParts()
        if self._parts.take(answer) and not self._parts.pending:
            self._settle(self._parts.result())
            return True
        return False

    def rewind(self) -> None:
        self._parts = None

    def touched(self) -> Touched:
        if self._touched is None:
            self._touched = Touched()
            self._touched.add_frame(self._read())
        return self._touched

    def fail(self, error: EcumeneError) -> None:
        self._release()
        if not self.future.done():
            self.future.set_exception(error)

    def _settle(self, result: FrameResult) -> None:
        if not result.lists_any(PASSING_REASONS) or not self._issue_again(result):
            self._finish(result)

    def _finish(self, result: FrameResult) -> None:
        # Not when the future is done: whoever stops waiting does not take the frame off the wire.
        self._release()
        if not self.future.done():
            self.future.set_result(result)

    def _issue_again(self, result: FrameResult) -> bool:
        """Let refused ops wait for another frame; False when none may, so that the result stands."""
        refused = {index: error for index, error in result.failures if may_pass(error)}
        behind = self._behind(self.seq)
        if not refused or behind is None:
            return False
        frame = self._read()
        deadline = self._issued_at + frame.deadline_ms / 1000 if frame.deadline_ms else math.inf
        if frame.ops:
            return self._issue_rows(frame, refused, result, behind, deadline)
        return self._issue_block(frame, refused, result, behind, deadline)

    def _issue_rows(
        self,
        frame: session_pb2.OpFrame,
        refused: Mapping[int, EcumeneError],
        result: FrameResult,
        behind: Sequence[Touched],
        deadline: float,
    ) -> bool:
        create_future = asyncio.get_running_loop().create_future
        here = Touched()
        waiting: list[tuple[IssuedOp, EcumeneError]] = []
        late: list[tuple[list[int], asyncio.Future[Any]]] = []
        for index in reversed(range(len(frame.ops))):
            path, op, options = read_row(frame, index)
            if index in refused:
                issued = IssuedOp(path, op, options, create_future(), deadline, (self.seq, index))
                if not any(touched.bars(issued) for touched in (*behind, here)):
                    waiting.append((issued, refused[index]))
                    late.append(([index], issued.future))
            else:
                here.add(path, op)
        self._refused_ops.hold_refused(waiting[::-1], is_final=True)
        self._await_late(result, late)
        return bool(late)

    def _issue_block(
        self,
        frame: session_pb2.OpFrame,
        refused: Mapping[int, EcumeneError],
        result: FrameResult,
        behind: Sequence[Touched],
        deadline: float,
    ) -> bool:
        path, keys = frame.paths[frame.block.path], frame.block.keys[:]
        done_later: set[str] = set()
        indexes: list[int] = []
        for index in reversed(range(len(keys))):
            key = keys[index]
            if index not in refused:
                done_later.add(key)
            elif key not in done_later and not any(touched.bars_key(path, key) for touched in behind):
                indexes.append(index)
        if not indexes:
            return False
        indexes.reverse()
        future = asyncio.get_running_loop().create_future()
        issued = IssuedBlock(path, select_block(frame, indexes), future, deadline, (self.seq, indexes[0]))
        if (again := self._again) is not None:
            issued.refusals, issued.order, issued.deadline = again.refusals, again.order, again.deadline
        longest = max((refused[index] for index in indexes), key=lambda error: error.retry_delay_s)
        if not self._refused_ops.hold_refused([(issued, longest)], is_final=True):
            issued.future.exception()  # each op has a refusal of its own
            return False
        self._await_late(result, [(indexes, issued.future)])
        return True

    def _await_late(self, result: FrameResult, late: Sequence[tuple[list[int], asyncio.Future[Any]]]) -> None:
        """Finish when all of these are done, each with what came of the ops at these places."""
        outcomes: dict[int, Outcome | EcumeneError] = {}
        left = len(late)

        def take(indexes: Sequence[int], future: asyncio.Future[Any]) -> None:
            nonlocal left
            error = future.exception()
            for place, index in enumerate(indexes):
                if error is not None:
                    assert isinstance(error, EcumeneError)
                    outcomes[index] = error
                else:
                    told = future.result()
                    outcomes[index] = told.peek(place) if isinstance(told, FrameResult) else told
            left -= 1
            if not left:
                self._finish(result.complete(outcomes))

        for indexes, future in late:
            future.add_done_callback(lambda done, indexes=indexes: take(indexes, done))  # type: ignore[misc]

    def _read(self) -> session_pb2.OpFrame:
        return session_pb2.SessionRequest.FromString(self._payload).frame
