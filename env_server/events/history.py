"""The order of groups as a watch walks it: the newest in the ring, everything retained in the log."""

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush

from env_server.events.ring import Ring
from env_server.events.statistics import HubStatistics
from env_server.model.changes import Changes
from env_server.model.errors import InternalError, RevisionCompacted

ReadLog = Callable[[int, int], Awaitable[list[Changes]]]
"""(from_revision, bytes_max) -> groups that hold it or later ones, in order, at least one if there is any."""

READS_MAX = 4
"""Reads of the log under way together."""
READ_BYTES = 1024 * 1024
READ_BYTES_MIN = 16 * 1024


class History:
    """Groups up to the durable head. Used in the world's loop only."""

    def __init__(self, ring_bytes_max: int, read_log: ReadLog, first_revision: Callable[[], int], head: int) -> None:
        self.head = head
        """The last published, hence durable, revision."""
        self.ring = Ring(ring_bytes_max)
        self.statistics = HubStatistics()
        self._backlog_bytes_max = ring_bytes_max
        self._read_log = read_log
        self._first_revision = first_revision
        self._reads = asyncio.Semaphore(READS_MAX)
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._waits = 0

    def append(self, changes: Changes) -> int:
        """Moves the head over the next group; returns the group's position in the ring.

        Raises:
            ValueError: the group does not follow the head.
        """
        if changes.base_revision != self.head:
            raise ValueError(f"group on revision {changes.base_revision} published at head {self.head}")
        position = self.ring.append(changes)
        self.head = changes.last_revision
        while self._waiting and self._waiting[0][0] <= self.head:
            heappop(self._waiting)[2]()
        return position

    def call_at(self, revision: int, call: Callable[[], None]) -> None:
        """Calls once when the head, now below `revision`, has reached it."""
        self._waits += 1
        heappush(self._waiting, (revision, self._waits, call))

    def check_retained(self, revision: int) -> None:
        """Refuses a start that the log no longer reaches, also while the ring happens to hold it.

        Raises:
            RevisionCompacted.
        """
        first = self._first_revision()
        if revision < first:
            raise RevisionCompacted(revision, first)

    def needs_log(self, cursor: int) -> bool:
        """Whether what follows the revision `cursor`, below the head, is only in the log."""
        return self.ring.find(cursor + 1) is None

    async def read(self, cursor: int) -> list[Changes]:
        """Some groups that hold the revisions after `cursor` (below the head), without a gap, at least one.

        Raises:
            RevisionCompacted: when the revision after `cursor` was trimmed, also during the read.
        """
        async with self._reads:
            self.check_retained(cursor + 1)
            # Watches that catch up together share one bound; whoever finds it used up goes on in small pieces.
            free = self._backlog_bytes_max - self.statistics.backlog_bytes
            groups = await self._read_log(cursor + 1, max(READ_BYTES_MIN, min(READ_BYTES, free // 8)))
        self.statistics.log_reads += 1
        found: list[Changes] = []
        reached = cursor
        for changes in groups:
            if changes.base_revision > reached:
                break  # trimmed between the question and the read
            if changes.last_revision > reached:
                found.append(changes)
                reached = changes.last_revision
        if not found:
            first = max(self._first_revision(), groups[0].base_revision + 1 if groups else 0)
            if cursor + 1 < first:
                raise RevisionCompacted(cursor + 1, first)
            raise InternalError(f"log-without-revision-{cursor + 1}")
        return found
