"""What waits for the disk: one buffer a table, one account of bounds for all of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ecumene.client.records import Table

from agent_runtime.recording.batches import Batch, make_batch
from agent_runtime.recording.errors import RecordingError, RecordingFailedError, RecordingFullError
from agent_runtime.recording.limits import RecordingLimits


class Backlog:
    """The rows and characters that are taken and not yet on disk, over all tables of a recorder.

    `changed` guards all fields here and in the buffers, and is notified when the writer has a reason
    to look or a flush is done.
    """

    def __init__(self, limits: RecordingLimits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self.clock = clock
        self.changed = threading.Condition()
        self.rows = 0
        self.chars = 0
        self.full_waits = 0
        self.closed = False
        self.failure: RecordingFailedError | None = None
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def check_open(self) -> None:
        """Raises RecordingFailedError if writing failed, RecordingError if the recorder was closed."""
        if self.failure is not None:
            failure = RecordingFailedError(self.failure.table, self.failure.problem)
            raise failure from self.failure.__cause__
        if self.closed:
            raise RecordingError("the recorder is closed")

    def check_room(self, table: str, batch: Batch) -> None:
        """Raises RecordingFullError if a batch does not fit; one alone always fits by characters."""
        bounds = (
            ("pending_rows_max", self.rows, batch.rows, self.limits.pending_rows_max, False),
            ("pending_chars_max", self.chars, batch.chars, self.limits.pending_chars_max, self.rows == 0),
        )
        for limit, pending, asked, bound, exempt in bounds:
            if pending + asked > bound and not exempt:
                raise RecordingFullError(table, limit, pending=pending, asked=asked, bound=bound)

    def wait_for_room(self) -> asyncio.Future[None]:
        """A future of the running loop that is done after the next release, or failure."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append((loop, future))
        self.full_waits += 1
        return future

    def release(self, rows: int, chars: int) -> None:
        """Rows are on disk, or given up; whoever waits for room looks again."""
        self.rows -= rows
        self.chars -= chars
        self.wake()

    def wake(self) -> None:
        """Let all who wait look again."""
        waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, future)
        self.changed.notify_all()


class TableBuffer:
    """Takes rows of one table. `extend` and `put` may be called from any thread, `put` on a loop."""

    def __init__(self, table: Table, run: str, backlog: Backlog) -> None:
        self.table = table
        self.rows_taken = 0
        self._run = run
        self._backlog = backlog
        self._batches: list[Batch] = []
        self.rows_waiting = 0
        self.first_at_s: float | None = None

    def extend(self, columns: Mapping[str, Any], rows: int | None = None) -> None:
        """Take a batch, without waiting: column name -> list, NumPy or Arrow array, or a scalar for all rows.

        The columns belong to the recorder from now on. Nullable columns may be left out, and `run`.
        `rows` is needed if every column is a scalar. Of an action and its turn, give the action first:
        then no turn is on disk without its actions.

        Raises BatchShapeError (nothing taken), RecordingFullError (nothing taken; use `put` to wait),
        RecordingFailedError. A number too large for its column becomes the largest, half a sign of a text `?`;
        a value of another kind than its column fails the recording when it is written.
        """
        self._take(make_batch(self.table, columns, rows, self._run))

    async def put(self, columns: Mapping[str, Any], rows: int | None = None) -> None:
        """Like `extend`, but waits while the disk is behind. A cancelled wait has taken nothing.

        Raises RecordingFullError at once if the batch is larger than `pending_rows_max`.
        """
        batch = make_batch(self.table, columns, rows, self._run)
        while True:
            with self._backlog.changed:
                try:
                    self._take(batch)
                    return
                except RecordingFullError:
                    if batch.rows > self._backlog.limits.pending_rows_max:
                        raise
                    room = self._backlog.wait_for_room()
            await room

    def drain(self) -> list[Batch]:
        """Hand all waiting batches to the writer; they stay in the backlog until released."""
        batches, self._batches = self._batches, []
        self.rows_waiting = 0
        self.first_at_s = None
        return batches

    def _take(self, batch: Batch) -> None:
        backlog = self._backlog
        with backlog.changed:
            backlog.check_open()
            if batch.rows == 0:
                return
            backlog.check_room(self.table.name, batch)
            backlog.rows += batch.rows
            backlog.chars += batch.chars
            self._batches.append(batch)
            self.rows_taken += batch.rows
            self.rows_waiting += batch.rows
            if self.first_at_s is None:
                self.first_at_s = backlog.clock()
                backlog.changed.notify_all()
            elif self.rows_waiting >= backlog.limits.part_rows_max:
                backlog.changed.notify_all()


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
