"""Catching up: ears that let events pass find them again, in the ring at once or in the log later."""

from functools import partial
from typing import Final

from env_server.model.changes import Changes
from env_server.model.errors import OutOfRange
from env_server.model.ports import Clock
from env_server.pipeline.listeners.audiences import Audiences
from env_server.pipeline.listeners.cursor import Cursor
from env_server.pipeline.listeners.ears import Ear, RowsByPath, make_event
from env_server.pipeline.reads.log_reads import Retained

_READ_BYTES: Final = 1024 * 1024
_READS_MAX: Final = 4
"""Ears that read the log for themselves at a time."""
_GROUPS_MAX: Final = 256
"""Groups looked through in one loop step."""
_RETRY_S: Final = 1.0


class CatchingUp:
    """Ears of one world that are behind its cursor."""

    def __init__(
        self,
        world: str,
        audiences: Audiences,
        rows: RowsByPath,
        cursor: Cursor,
        retained: Retained,
        clock: Clock,
    ) -> None:
        self._world = world
        self._audiences = audiences
        self._rows = rows
        self._cursor = cursor
        self._history, self._read_log_then, self._first_revision = retained
        self._clock = clock
        self._reads = 0
        self._waiting: dict[Ear, None] = {}
        self._is_stopped = False

    def refill(self, ear: Ear) -> None:
        """Fills an ear that is behind, from the ring at once or from the log later."""
        groups = 0
        ring = self._history.ring
        while ear.heard[0] <= self._cursor.routed:
            position = ring.find(ear.heard[0])
            if position is None:
                self._read_for(ear)
                return
            while position < ring.end and groups < _GROUPS_MAX and ear.heard[0] <= self._cursor.routed:
                changes = ring.get(position)
                assert changes is not None
                if not self._fill(ear, changes):
                    return
                position += 1
                groups += 1
            if ear.events or groups >= _GROUPS_MAX:
                break
        if ear.heard[0] > self._cursor.routed:
            ear.is_behind = False
            self._audiences.settle(ear)
        self._audiences.wake(ear)

    def forget(self, ear: Ear) -> None:
        """Its environment is gone."""
        self._waiting.pop(ear, None)

    def stop(self) -> None:
        """What is read comes to nothing."""
        self._is_stopped = True

    def _fill(self, ear: Ear, changes: Changes) -> bool:
        """Lets it take what it wants of a group; whether it took all."""
        for row in ear.select(changes, self._rows.of(changes)):
            if ear.is_full:
                self._audiences.wake(ear)
                return False
            ear.take(make_event(self._world, changes, row))
        if ear.events:
            return self._look_past(ear, changes)
        ear.heard = max(ear.heard, (changes.last_revision + 1, 0))
        return True

    def _look_past(self, ear: Ear, changes: Changes) -> bool:
        """It holds events, which it hears before it looks further, unless this was the last group."""
        if changes.last_revision >= self._cursor.routed:
            ear.is_behind = False
        self._audiences.wake(ear)
        return False

    def _read_for(self, ear: Ear) -> None:
        if ear.is_reading:
            return
        if self._reads >= _READS_MAX:
            self._waiting[ear] = None
            return
        self._reads += 1
        ear.is_reading = True
        self._read_log_then(ear.heard[0], _READ_BYTES, partial(self._read, ear))

    def _read(self, ear: Ear, found: list[Changes] | BaseException) -> None:
        self._reads -= 1
        ear.is_reading = False
        if self._is_stopped:
            return
        for other in list(self._waiting)[: _READS_MAX - self._reads]:
            del self._waiting[other]
            self._read_for(other)
        if self._audiences.get(ear.node.number) is None:
            return
        if isinstance(found, OutOfRange):
            self._audiences.lose(ear, self._first_revision() - 1)
        elif isinstance(found, BaseException):
            self._clock.call_later(_RETRY_S, lambda: self._read_for(ear))
        else:
            for changes in found:
                if changes.last_revision >= ear.heard[0] and not self._fill(ear, changes):
                    break
            if ear.heard[0] > self._cursor.routed:
                ear.is_behind = False
                self._audiences.settle(ear)
            self._audiences.wake(ear)
