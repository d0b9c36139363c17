"""Admission: whether there is room on the disk for what a frame asks to write.

    used           on the disk, as of the last commit
    under way      log records not durable yet, and what the frames in the open group asked for
    owed           what the state tables lack: it is in the log, and a saving round writes it once more
    the frame      as many bytes as it came in, twice: in the log, and owed

Together they stay within `quota_refuse` of the room, which the map or, when that is less, the disk. A commit
that does not fit ends the server, so it must never be asked for. Deletions are always let in: they are small. While the
world is full it saves what is owed and cuts its log, so that room is found also when nobody writes.
"""

import logging
from typing import Final

from env_server.model.errors import Exhausted, Reason
from env_server.model.limits import Limits
from env_server.model.ports import CommitLog
from env_server.pipeline.commits.commits import Commits
from env_server.pipeline.commits.saving import Saving

_log = logging.getLogger(__name__)

_OP_BYTES: Final = 64
"""What an op takes in a record besides what came with it, roughly."""
_RETRY_DELAY_MS: Final = 1000
"""Room is found by a saving round or by people, not within the usual delay."""
_CALM: Final = 0.05
"""So far below the warning's level storage is no longer low: a world that stays near it warns once."""


class Admission:
    """Room of one world. Looks at the disk after each commit, and adds up in between."""

    def __init__(self, world: str, log: CommitLog, commits: Commits, saving: Saving, limits: Limits) -> None:
        self._world = world
        self._log = log
        self._commits = commits
        self._saving = saving
        self._limits = limits
        self._used = self._room = self._free = 0
        #: Whether storage runs low; told once in the server's log each time that it begins to.
        self.is_low = False
        self.look()

    def look(self) -> None:
        """Takes the numbers of the last commit; a full world goes on making room, as long as that gains anything."""
        before, self._used = self._used, self._log.storage_bytes()
        self._room = self._log.room_bytes()
        self._free = int(self._limits.quota_refuse * self._room) - self._used
        self._watch_level()
        if self._commits.bytes_under_way + self._saving.bytes_owed > self._free and (
            self._saving.is_behind or self._used < before
        ):
            self._commits.urge()

    def _watch_level(self) -> None:
        level = self._used / self._room if self._room else 1.0
        if self.is_low:
            self.is_low = level > self._limits.quota_warn - _CALM
        elif level >= self._limits.quota_warn:
            self.is_low = True
            _log.warning(
                "world %s uses %.0f %% of its storage (%d of %d bytes); from %.0f %% on writes are refused: delete or "
                "compact, make room on the disk, or raise --map-mib",
                *(self._world, 100 * level, self._used, self._room, 100 * self._limits.quota_refuse),
            )

    def refusal(self, ops: int, size_bytes: int) -> Exhausted | None:
        """Why writes of a frame of this size are refused; None = there is room, and it counts as under way now."""
        asked = 2 * (size_bytes + _OP_BYTES * ops)
        needed = self._commits.bytes_under_way + self._saving.bytes_owed + asked
        if needed <= self._free:
            self._commits.expect(asked)
            return None
        if self._saving.is_behind:
            self._commits.urge()
        problem = f"{self._used} of {self._room} bytes of storage are in use, {needed} more are on their way"
        limit = "map_bytes", self._room
        return Exhausted.of(Reason.STORAGE_QUOTA, *limit, problem, _RETRY_DELAY_MS, used=str(self._used))
