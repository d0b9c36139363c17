"""Compaction: the log forgets what was asked, a few records a commit, once the state tables hold what they changed."""

from collections.abc import Callable

from env_server.model.errors import OutOfRange, Reason
from env_server.model.ports import CommitLog
from env_server.pipeline.commits.commits import Commits

Done = Callable[[int], None]
"""Gets the oldest revision that is left."""


class Compaction:
    """What one world was asked to forget."""

    def __init__(self, log: CommitLog, commits: Commits) -> None:
        self._log = log
        self._commits = commits
        self._waiting: list[tuple[int, Done]] = []

    def check(self, revision: int) -> None:
        """Accepts a revision below which all may be forgotten.

        Raises:
            OutOfRange: REVISION_IN_FUTURE: it is not durable yet.
        """
        durable = self._commits.durable_revision
        if revision > durable:
            raise OutOfRange(
                Reason.REVISION_IN_FUTURE,
                f"revision {revision} is not there yet, the world is at {durable}",
                metadata={"asked": str(revision), "revision": str(durable)},
            )

    def begin(self, revision: int, done: Done) -> None:
        """Forgets what lies below `revision` (checked; 0 = the durable one); `done` when nothing more of it can go."""
        self._log.compact(revision or self._commits.durable_revision)
        # Commits on their way may not know of it: the next group is the first that does.
        self._waiting.append((self._commits.group.number, done))
        self._commits.urge()

    def look(self) -> None:
        """After each commit: goes on, or answers."""
        if not self._waiting or self._commits.durable_number < self._waiting[0][0]:
            return
        if self._log.owes_compaction:
            self._commits.urge()
            return
        due = [done for number, done in self._waiting if number <= self._commits.durable_number]
        del self._waiting[: len(due)]
        for done in due:
            done(self._log.first_revision)

    def end(self) -> None:
        """The world ends: answers with what has come of it so far."""
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            done(self._log.first_revision)
