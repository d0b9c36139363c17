"""The recorder of one worker: buffers in front, one writer thread behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
from ecumene.client.records import ACTIONS, CALLS, TURNS, Table, close_part

from agent_runtime.recording.batches import Batch, build_rows
from agent_runtime.recording.buffer import Backlog, TableBuffer
from agent_runtime.recording.errors import RecordingFailedError
from agent_runtime.recording.limits import RecordingLimits
from agent_runtime.recording.staging import Staging

# Written in this order: a turn on disk has its actions and calls on disk.
_ORDER = (CALLS, ACTIONS, TURNS)
# What the disk and Arrow raise. Anything else is a defect, and still fails the recording (see _run).
_WRITE_ERRORS = (OSError, ValueError, TypeError, OverflowError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class ClosedPart:
    """A part that is durably on disk."""

    table: str
    path: Path
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class RecordingStatistics:
    """Where a recorder stands. `full_waits` counts how often a `put` found the backlog full."""

    rows_taken: dict[str, int]
    rows_on_disk: dict[str, int]
    rows_pending: int
    chars_pending: int
    parts: int
    size_bytes: int
    full_waits: int
    write_s: float


class Recorder:
    """Records turns, actions and calls of one worker into the directory of its run.

    `recorder.turns.extend(columns)` takes rows in memory, within `limits`; the writer thread closes
    part files of all tables at the latest `part_age_ms_max` after a row came. After kill -9 all closed
    parts are readable and only rows younger than 5 s are missing. Give actions before their turn.

    When the disk fails nothing more is recorded, `on_failure` is called once (in the writer thread), and
    every later call raises RecordingFailedError: a run decides what to do, it cannot miss it.
    """

    def __init__(
        self,
        directory: Path,
        *,
        run: str,
        source: str,
        clock: Callable[[], float] = time.monotonic,
        limits: RecordingLimits | None = None,
        on_part: Callable[[ClosedPart], None] | None = None,
        on_failure: Callable[[RecordingFailedError], None] | None = None,
    ) -> None:
        """`source` names this worker for ever, such as `node-1.worker-03`; `clock` counts seconds.

        `on_part` is called in the writer thread for each closed part.
        """
        self._directory = directory
        self._source = source
        self._limits = limits or RecordingLimits()
        self._backlog = Backlog(self._limits, clock)
        self._buffers = {table.name: TableBuffer(table, run, self._backlog) for table in _ORDER}
        self.turns = self._buffers[TURNS.name]
        self.actions = self._buffers[ACTIONS.name]
        self.calls = self._buffers[CALLS.name]
        self._on_part = on_part
        self._on_failure = on_failure
        self._staging: Staging | None = None
        self._thread: threading.Thread | None = None
        self._flush_asked = 0
        self._flush_done = 0
        self._rows_on_disk = dict.fromkeys(self._buffers, 0)
        self._parts = 0
        self._size_bytes = 0
        self._write_s = 0.0

    def start(self) -> None:
        """Make the folders and start the writer thread.

        Raises SourceInUseError, PartNameError, OSError.
        """
        self._staging = Staging(self._directory, self._source, _ORDER)
        self._thread = threading.Thread(target=self._run, name=f"recorder-{self._source}", daemon=True)
        self._thread.start()

    def flush(self, timeout_s: float = 30.0) -> None:
        """Wait until every row taken so far is on disk. Blocks: on a loop, call it in a thread.

        Raises RecordingFailedError, TimeoutError.
        """
        changed = self._backlog.changed
        with changed:
            self._backlog.check_open()
            self._flush_asked += 1
            ticket = self._flush_asked
            changed.notify_all()
            done = changed.wait_for(lambda: self._flush_done >= ticket or self._backlog.failure, timeout_s)
            if self._backlog.failure is not None:
                self._backlog.check_open()
        if not done:
            raise TimeoutError(f"{self._directory}: rows not on disk after {timeout_s:g} s")

    def has_written(self, rows_taken: Mapping[str, int]) -> bool:
        """Whether so many rows of each table are on disk. Raises RecordingFailedError if they never will be."""
        with self._backlog.changed:
            if self._backlog.failure is not None:
                self._backlog.check_open()
            return all(self._rows_on_disk[table] >= rows for table, rows in rows_taken.items())

    def close(self) -> None:
        """Write what waits and end the thread. Blocks until it is on disk. May be called twice.

        Raises RecordingFailedError if anything that was taken is not on disk.
        """
        with self._backlog.changed:
            self._backlog.closed = True
            self._backlog.wake()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        thread.join()
        if self._backlog.failure is not None:
            self._backlog.check_open()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def failure(self) -> RecordingFailedError | None:
        """Why nothing is recorded any more, or None."""
        return self._backlog.failure

    def statistics(self) -> RecordingStatistics:
        """Where the recorder stands now."""
        with self._backlog.changed:
            return RecordingStatistics(
                rows_taken={name: buffer.rows_taken for name, buffer in self._buffers.items()},
                rows_on_disk=dict(self._rows_on_disk),
                rows_pending=self._backlog.rows,
                chars_pending=self._backlog.chars,
                parts=self._parts,
                size_bytes=self._size_bytes,
                full_waits=self._backlog.full_waits,
                write_s=self._write_s,
            )

    # ---- in the writer thread ----

    def _run(self) -> None:
        ended = False
        try:
            while self._write_next():
                pass
            ended = True
        finally:
            if not ended:
                self._fail("a part", "the writer thread ended: a defect", None)
            assert self._staging is not None
            self._staging.close()

    def _write_next(self) -> bool:
        """Wait for a reason to write, and write; returns whether to go on."""
        changed = self._backlog.changed
        with changed:
            while (delay_s := self._count_delay_s()) > 0:
                changed.wait(None if delay_s == float("inf") else delay_s)
            ticket, last = self._flush_asked, self._backlog.closed
            drained = [(buffer.table, buffer.drain()) for buffer in self._buffers.values()]
        began_s = self._backlog.clock()
        for table, batches in drained:
            if batches and not self._try_write(table, batches):
                return False
        with changed:
            self._write_s += self._backlog.clock() - began_s
            self._flush_done = ticket
            changed.notify_all()
        return not last

    def _count_delay_s(self) -> float:
        """Seconds until there is something to write; 0 = now, infinity = not before something comes."""
        if self._backlog.closed or self._flush_asked > self._flush_done:
            return 0.0
        buffers = self._buffers.values()
        if any(buffer.rows_waiting >= self._limits.part_rows_max for buffer in buffers):
            return 0.0
        first_at_s = min((b.first_at_s for b in buffers if b.first_at_s is not None), default=float("inf"))
        return max(0.0, first_at_s + self._limits.part_age_ms_max / 1000 - self._backlog.clock())

    def _try_write(self, table: Table, batches: list[Batch]) -> bool:
        """Close the parts of drained batches; on failure say so and return False."""
        assert self._staging is not None
        rows, chars = sum(batch.rows for batch in batches), sum(batch.chars for batch in batches)
        try:
            joined = build_rows(table, batches)
            batches.clear()
            for start in range(0, rows, self._limits.part_rows_max):
                piece = joined.slice(start, self._limits.part_rows_max)
                path = self._staging.next_path(table)
                self._count(ClosedPart(table.name, path, len(piece), close_part(piece, path, self._staging.folder)))
        except _WRITE_ERRORS as error:
            self._fail(table.name, "; ".join([str(error), *getattr(error, "__notes__", ())]), error)
            return False
        with self._backlog.changed:
            self._backlog.release(rows, chars)
        return True

    def _count(self, part: ClosedPart) -> None:
        with self._backlog.changed:
            self._rows_on_disk[part.table] += part.rows
            self._parts += 1
            self._size_bytes += part.size_bytes
        if self._on_part is not None:
            self._on_part(part)

    def _fail(self, table: str, problem: str, cause: BaseException | None) -> None:
        """Give up, for good, and let everyone know who waits or calls."""
        failure = RecordingFailedError(table, problem)
        failure.__cause__ = cause
        with self._backlog.changed:
            if self._backlog.failure is not None:
                return
            self._backlog.failure = failure
            for buffer in self._buffers.values():
                buffer.drain()
            self._backlog.wake()
        if self._on_failure is not None:
            self._on_failure(failure)
