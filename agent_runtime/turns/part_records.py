"""The records of one part, which end with its ownership; the worker's go on."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ecumene.client.records import TurnStatus

from agent_runtime.turns.ends import TurnEnd
from agent_runtime.turns.held_rows import MakeRow
from agent_runtime.turns.turn_records import TurnRecords


class PartRecords:
    """The records of one part: those of the worker, until the part is somebody else's, who then records its turns."""

    def __init__(self, records: TurnRecords) -> None:
        self._records = records
        self._is_closed = False
        self.statuses: Counter[TurnStatus] = Counter()

    def count_ended(self) -> dict[str, int]:
        """Turns of the part that have ended here, by status."""
        return {status.value: count for status, count in self.statuses.items()}

    def close(self) -> None:
        """Take nothing any more, silently."""
        self._is_closed = True

    async def close_turn(self, *arguments: Any) -> None:
        """See TurnRecords."""
        if not self._is_closed:
            await self._records.close_turn(*arguments)
            end: TurnEnd = arguments[3]
            self.statuses[end.status] += 1

    async def close_many(self, *arguments: Any, **columns: Any) -> None:
        """See TurnRecords."""
        if not self._is_closed:
            await self._records.close_many(*arguments, **columns)
            end: TurnEnd = arguments[5]
            self.statuses[end.status] += len(arguments[2])

    def add_call(self, make: MakeRow) -> None:
        """See TurnRecords."""
        if not self._is_closed:
            self._records.add_call(make)

    async def wait_on_disk(self) -> None:
        """Until all that was recorded so far is on disk. Raises RecordingError."""
        await self._records.wait_on_disk()
