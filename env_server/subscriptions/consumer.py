"""One consumer: what it is delivered of a subscription.

It reads the world's history through a cursor, like a watch, from where its partitions were acknowledged to. What it has
not acknowledged stays outstanding; when that is as much as it wants, delivery waits. Whenever its partitions change it
begins anew, under a new term: what it had not acknowledged is delivered again as far as it is still its own.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from env_server.model.errors import WorldError
from env_server.model.ports import Clock
from env_server.model.subscriptions import Assignment
from env_server.model.watching import Delivery
from env_server.subscriptions.deadline import AckDeadline
from env_server.subscriptions.outstanding import Outstanding
from env_server.subscriptions.partitions import NOT_MINE, select_partitions


class Cursor(Protocol):
    """A watch, as far as it is needed here."""

    async def next(self, events_max: int) -> Delivery:
        """See events.watch.Watch."""

    def mark(self) -> int | None:
        """See events.watch.Watch."""

    def reached(self) -> int:
        """See events.watch.Watch."""

    def close(self) -> None:
        """See events.watch.Watch."""


class Consumer:
    """Attached by Consuming, read by one task. Whole revisions, in order, only of its partitions."""

    def __init__(
        self,
        name: str,
        outstanding_max: int,
        clock: Clock,
        ack_timeout_ms: int,
        open_cursor: Callable[[int], Cursor],
        on_deadline: Callable[["Consumer"], None],
    ) -> None:
        """`open_cursor(from_revision)` reads the events that the subscription is for."""
        self.name = name
        self.term = 0
        self.partitions: tuple[int, ...] = ()
        self.share = 0
        #: Everything up to here was acknowledged, under this term.
        self.acknowledged = 0
        #: Everything up to here was delivered, under this term.
        self.delivered = 0
        self.deadline = AckDeadline(
            clock, ack_timeout_ms, lambda: self.outstanding_events > 0, lambda: on_deadline(self)
        )
        self._outstanding_max = outstanding_max
        self._open_cursor = open_cursor
        self._outstanding = Outstanding()
        self._floors: list[int] | None = None
        self._assignment: Assignment | None = None
        self._is_told = False
        self._cursor: Cursor | None = None
        self._held: tuple[Delivery, list[int]] | None = None
        """The next step, with its revisions, for which there is no room yet."""
        self._scanned = 0
        """Nothing that matches lies between what was delivered and here."""
        self._error: WorldError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def outstanding_events(self) -> int:
        """Delivered and not acknowledged."""
        return self._outstanding.count_after(self.acknowledged)

    def assign(self, term: int, partitions: tuple[int, ...], cursors: Sequence[int]) -> None:
        """Begins anew; nothing is delivered before `tell`. `cursors` are those of all partitions."""
        self._forget()
        self.term, self.partitions = term, partitions
        self.acknowledged = self.delivered = self._scanned = min([cursors[mine] for mine in partitions], default=0)
        self._floors = None
        if len(cursors) > 1:
            self._floors = [NOT_MINE] * len(cursors)
            for mine in partitions:
                self._floors[mine] = cursors[mine]

    def tell(self, term: int) -> None:
        """Lets it know of its assignment, which is durable now, unless there is a newer one."""
        if term == self.term and self._error is None:
            self._assignment = Assignment(term, self.partitions, self.acknowledged)
            self.wake()

    def end(self, error: WorldError) -> None:
        """Ends it: its reader gets `error` next. Only the first call has an effect."""
        if self._error is None:
            self._error = error
            self._forget()
            self.wake()

    def wake(self) -> None:
        """Lets it look again: there may be room."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> Assignment | Delivery:
        """The next step: an assignment first, then whole revisions, or a mark. Waits for it if need be.

        Cancelling it loses nothing. One call at a time.

        Raises:
            WorldError: why it ended; again on every further call.
        """
        while True:
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self._assignment is not None:
                return self._begin(self._assignment)
            step = self._take_held()
            if step is not None:
                return step
            room = self._room()
            if self._cursor is None or self._held is not None or room <= 0:
                await self._wait()
            else:
                step = await self._read(self._cursor, room)
                if step is not None:
                    return step

    def mark(self) -> int | None:
        """The revision up to which everything has been delivered, as far as that is known now; may be acknowledged.

        None before its assignment.
        """
        if not self._is_told:
            return None
        if self._held is None and self._cursor is not None:
            self.delivered = self._scanned = max(self._scanned, self._cursor.mark() or 0)
        return self.delivered

    def find_passed(self) -> int | None:
        """The revision up to which there was nothing more for it, when it holds nothing; None when that is no news."""
        if not self._is_told or self._cursor is None or self._held is not None or self.outstanding_events:
            return None
        self.delivered = self._scanned = max(self._scanned, self._cursor.reached())
        return self.delivered if self.delivered > self.acknowledged else None

    def _begin(self, told: Assignment) -> Assignment:
        self._assignment = None
        self._is_told = True
        if told.partitions:
            self._cursor = self._open_cursor(told.cursor + 1)
        return told

    def _room(self) -> int:
        return self._outstanding_max - self.outstanding_events

    async def _read(self, cursor: Cursor, events_max: int) -> Delivery | None:
        """The next step of the cursor that concerns it, if that fits."""
        try:
            step = await cursor.next(events_max)
        except WorldError:
            if self._cursor is not cursor:  # closed, because there is a new assignment or an end
                return None
            raise
        changes = step.changes
        if changes is None:
            self._scanned = self.delivered = step.through_revision
            return step
        rows = step.rows if self._floors is None else select_partitions(changes, step.rows, self._floors)
        revisions = changes.revisions if rows is None else [changes.revisions[row] for row in rows]
        if not revisions:
            self._scanned = step.through_revision
            return None
        self._held = step._replace(rows=rows), revisions
        return self._take_held()

    def _take_held(self) -> Delivery | None:
        """What was read, if there is room for it; a revision larger than all room goes alone."""
        if self._held is None:
            return None
        step, revisions = self._held
        outstanding = self.outstanding_events
        if outstanding and outstanding + len(revisions) > self._outstanding_max:
            return None
        self._held = None
        self._outstanding.add(revisions, self.acknowledged)
        self._scanned = self.delivered = step.through_revision
        if not outstanding:
            self.deadline.renew()
        return step

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _forget(self) -> None:
        """Drops what was under way."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            cursor.close()
        self.deadline.stop()
        self._is_told = False
        self._assignment = self._held = None
        self._outstanding.clear()
