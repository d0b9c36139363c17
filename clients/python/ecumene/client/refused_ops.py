"""Ops that the server refused for now, and issues again later: it was full, or about to stop; they had no effect.

An op is issued again only when nothing that was issued after it can overtake it: ops of one key keep their order.

* What was sent or queued behind it must not touch the same key (for an invocation or a change of an environment: the
  same environment; for a transaction: anything); otherwise the op fails at once, with what the server said.
* What is issued while it waits, in the same environment, waits behind it; a whole frame only if it touches the same
  key.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from env_api.v1 import errors_pb2, session_pb2

from ecumene.client.backoff import Backoff
from ecumene.client.errors import EcumeneError, Executed
from ecumene.client.frame_result import FrameResult
from ecumene.client.model import Outcome
from ecumene.client.reasons import DrainingError, QueueFullError, RateLimitedError, RecoveringError
from ecumene.client.rows import Rows

PASSING = (QueueFullError, RateLimitedError, DrainingError, RecoveringError)
PASSING_REASONS = frozenset(
    errors_pb2.ErrorReason.Value(f"ERROR_REASON_{name}")
    for name in ("QUEUE_FULL", "RATE_LIMITED", "DRAINING", "RECOVERING")
)
"""The same, as they come over the wire."""


@dataclass(slots=True)
class IssuedOp:
    """An op with its caller, who has waited for it since before."""

    path: str
    op: session_pb2.Op
    options: Mapping[str, Any]
    future: asyncio.Future[Outcome]
    deadline: float
    """When its caller has no more use for an outcome, in the loop's time; infinite = never."""
    order: tuple[int, int]
    """Its place among all ops of the session, in the order in which they were first issued."""
    refusals: int = 0
    due: float = 0.0
    """When it may be issued again, in the loop's time."""
    is_released: bool = True
    """Whether nothing else can have it executed."""

    @property
    def keys(self) -> Sequence[str]:
        """Keys that it touches; none = any of its environment."""
        return (self.op.key,) if self.op.key else ()

    @property
    def is_everywhere(self) -> bool:
        """Whether it may touch anything: a transaction names places of its own."""
        return _is_everywhere(self.op)


@dataclass(slots=True)
class IssuedBlock:
    """What a frame in columns has left of ops that were refused for now: they go again in columns, together."""

    path: str
    frame: session_pb2.OpFrame
    """Of those ops alone."""
    future: asyncio.Future[FrameResult]
    deadline: float
    order: tuple[int, int]
    refusals: int = 0
    due: float = 0.0
    is_released: bool = True

    @property
    def keys(self) -> Sequence[str]:
        """Keys that it touches."""
        return self.frame.block.keys

    @property
    def is_everywhere(self) -> bool:
        """Never: each op of a block touches one entry."""
        return False


Issued = IssuedOp | IssuedBlock
Held = TypeVar("Held", bound=Issued)


class Touched:
    """Keys and environments of ops that follow a refused one."""

    def __init__(self) -> None:
        self._rows_seen = 0
        self._keys: set[tuple[str, str]] = set()
        self._paths: set[str] = set()
        self._wide_paths: set[str] = set()
        """Environments with an op that may touch any of their keys."""
        self._is_everywhere = False

    def add(self, path: str, op: session_pb2.Op) -> None:
        """One more op follows."""
        self._keys.add((path, op.key))
        self._paths.add(path)
        if not op.key:
            self._wide_paths.add(path)
            self._is_everywhere |= _is_everywhere(op)

    def add_rows(self, rows: Rows) -> None:
        """All ops of a frame that were not added yet."""
        for path, op in rows.places(self._rows_seen):
            self.add(path, op)
        self._rows_seen = len(rows)

    def add_keys(self, path: str, keys: Iterable[str]) -> None:
        """Ops follow, one on each of these entries."""
        self._keys.update((path, key) for key in keys)
        self._paths.add(path)

    def add_frame(self, frame: session_pb2.OpFrame) -> None:
        """All ops of a frame as it was sent."""
        for op in frame.ops:
            self.add(frame.paths[op.path], op)
        if frame.block.keys:
            self.add_keys(frame.paths[frame.block.path], frame.block.keys)

    def bars(self, issued: Issued) -> bool:
        """Whether what is issued anew might come behind one of these on a key that both touch."""
        if issued.is_everywhere:
            return bool(self._paths)
        keys = issued.keys
        if keys:
            return any(self.bars_key(issued.path, key) for key in keys)
        return self._is_everywhere or issued.path in self._paths

    def bars_key(self, path: str, key: str) -> bool:
        """`bars` for an op on one entry."""
        return self._is_everywhere or path in self._wide_paths or (path, key) in self._keys


class RefusedOps:
    """Refused ops of one session that wait to be issued again, and those that must not overtake them.

    `issue` puts one back into the outbox, unless its caller has given it up. The wait is the server's advice and a
    random time that grows with each refusal; after `refusals_max`, or when the caller's deadline would pass, the op
    fails with the last refusal.
    """

    def __init__(self, issue: Callable[[Issued], None], backoff: Backoff, refusals_max: int) -> None:
        self._issue = issue
        self._backoff = backoff
        self._refusals_max = refusals_max
        self._waiting: list[Issued] = []
        """In the order in which they were first issued."""
        self._paths: set[str] = set()
        self._holds_all = False
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def must_wait(self, path: str, op: session_pb2.Op) -> bool:
        """Whether an op that is issued now could overtake one that waits."""
        return self._stands_behind(path, _is_everywhere(op))

    def list_overtaken(self, touched: Touched) -> list[asyncio.Future[Any]]:
        """Futures of what waits and would be overtaken by a frame that touches this."""
        return [issued.future for issued in self._waiting if not issued.future.done() and touched.bars(issued)]

    def hold(self, issued: Issued) -> None:
        """Let an op wait, in its place among those that wait."""
        # One that was refused just now was issued before some that wait behind others.
        bisect.insort(self._waiting, issued, key=_get_order)
        self._paths.add(issued.path)
        self._holds_all |= issued.is_everywhere

    def hold_refused(self, refused: Sequence[tuple[Held, EcumeneError]], *, is_final: bool) -> list[Held]:
        """Ops of one frame were refused: wait with them, or fail those that may wait no more; returns the former.

        Not `is_final`: their frame may yet be sent again, and they with it; `release` or `withdraw` follows.
        """
        now = asyncio.get_running_loop().time()
        # Those that were refused together come back together, in one frame again.
        dues: dict[tuple[int, float], float] = {}
        held = []
        for op, refusal in refused:
            kind = (op.refusals, refusal.retry_delay_s)
            if kind not in dues:
                dues[kind] = now + self._backoff.delay_s(*kind)
            op.due = dues[kind]
            op.is_released = is_final
            op.refusals += 1
            if op.refusals <= self._refusals_max and op.due < op.deadline:
                self.hold(op)
                held.append(op)
            elif not op.future.done():
                op.future.set_exception(refusal)
        self._set_timer()
        return held

    def release(self, ops: Iterable[Issued]) -> None:
        """Their frame is done: only they themselves can be sent again."""
        for op in ops:
            op.is_released = True
        self._set_timer()

    def withdraw(self, ops: Iterable[Issued]) -> None:
        """Their frame is sent again, and they with it."""
        gone = set(map(id, ops))
        self._waiting, waiting = [], self._waiting
        self._paths, self._holds_all = set(), False
        for op in waiting:
            if id(op) not in gone:
                self.hold(op)
        self._set_timer()

    def fail(self, error: EcumeneError) -> None:
        """The session ended."""
        waiting, self._waiting = self._waiting, []
        for op in waiting:
            if not op.future.done():
                op.future.set_exception(error)
        self._set_timer()

    def _issue_due(self) -> None:
        self._timer = None
        for op in self._take(asyncio.get_running_loop().time()):
            self._issue(op)
        self._set_timer()

    def _take(self, now: float) -> list[Issued]:
        """Take out what is due and has nothing before it that is not."""
        waiting, taken = self._waiting, []
        self._waiting, self._paths, self._holds_all = [], set(), False
        for op in waiting:
            if op.due > now or not op.is_released or self._stands_behind(op.path, op.is_everywhere):
                self.hold(op)
            else:
                taken.append(op)
        return taken

    def _stands_behind(self, path: str, is_everywhere: bool) -> bool:
        return bool(self._waiting) and (self._holds_all or path in self._paths or is_everywhere)

    def _set_timer(self) -> None:
        """Look again when the first of those is due that have nothing before them; at once, if one is due already."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, dues = self._waiting, []
        self._waiting, self._paths, self._holds_all = [], set(), False
        for op in waiting:
            if op.is_released and not self._stands_behind(op.path, op.is_everywhere):
                dues.append(op.due)
            self.hold(op)
        if dues:
            self._timer = asyncio.get_running_loop().call_at(min(dues), self._issue_due)


def may_pass(error: EcumeneError) -> bool:
    """Whether an op failed for a reason that time cures, and surely without effect."""
    return isinstance(error, PASSING) and error.executed is Executed.NO


def _is_everywhere(op: session_pb2.Op) -> bool:
    return op.WhichOneof("action") == "transact"


def _get_order(issued: Issued) -> tuple[int, int]:
    return issued.order
