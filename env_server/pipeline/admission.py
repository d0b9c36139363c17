"""Admission: whether there is room on the disk for what a frame asks to write.

    used           on the disk, as of the last commit
    under way      log records not durable yet, and what the frames in the open group asked for
    owed           what the state tables lack: it is in the log, and a saving round writes it once more
    the frame      as many bytes as it came in, twice: in the log, and owed

Together they stay within `quota_refuse` of the room, which the map or, when that is less, the disk. A commit
that does not fit ends the server, so it must never be asked for. Deletions are always let in: they are small. While the
world is full it saves what is owed and cuts its log, so that room is found also when nobody writes.
"""

from typing import Final

from env_server.model.errors import Exhausted, Reason
from env_server.model.limits import Limits
from env_server.model.ports import CommitLog
from env_server.pipeline.commits import Commits
from env_server.pipeline.saving import Saving

_OP_BYTES: Final = 64
"""What an op takes in a record besides what came with it, roughly."""


class Admission:
    """Room of one world. Looks at the disk after each commit, and adds up in between."""

    def __init__(self, log: CommitLog, commits: Commits, saving: Saving, limits: Limits) -> None:
        self._log = log
        self._commits = commits
        self._saving = saving
        self._limits = limits
        self._used = self._room = self._free = 0
        self.look()

    def look(self) -> None:
        """Takes the numbers of the last commit; a full world goes on making room, as long as that gains anything."""
        before, self._used = self._used, self._log.storage_bytes()
        self._room = self._log.room_bytes()
        self._free = int(self._limits.quota_refuse * self._room) - self._used
        if self._commits.bytes_under_way + self._saving.bytes_owed > self._free and (
            self._saving.is_behind or self._used < before
        ):
            self._commits.urge()

    def refusal(self, ops: int, size_bytes: int) -> Exhausted | None:
        """Why writes of a frame of this size are refused; None = there is room, and it counts as under way now."""
        asked = 2 * (size_bytes + _OP_BYTES * ops)
        needed = self._commits.bytes_under_way + self._saving.bytes_owed + asked
        if needed <= self._free:
            self._commits.expect(asked)
            return None
        if self._saving.is_behind:
            self._commits.urge()
        return Exhausted(
            Reason.STORAGE_QUOTA,
            f"{self._used} of {self._room} bytes of storage are in use, {needed} more are on their way",
            metadata={"limit": "map_bytes", "max": str(self._room), "used": str(self._used)},
            retry_delay_ms=1000,
        )
