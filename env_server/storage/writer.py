"""The thread that commits: whatever is queued becomes one transaction, one fsync, one report."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from env_server.diagnostics import failpoints
from env_server.storage.groups import Group

COMMIT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of records beyond which a commit takes no further group: what came first is answered first."""


class Commit(Protocol):
    """Makes groups durable, or raises."""

    def __call__(self, groups: list[Group]) -> None: ...


class Writer:
    """One thread, one queue. After the first failure nothing more is committed, whatever is queued."""

    def __init__(
        self,
        name: str,
        commit: Commit,
        call: Callable[..., object],
        on_durable: Callable[[int], None],
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._commit = commit
        self._call = call
        self._on_durable = on_durable
        self._on_fatal = on_fatal
        self.failed = False
        """Whether a commit has failed. For whoever has waited for the end in `stop`."""
        self._queue: SimpleQueue[Group | None] = SimpleQueue()
        # Daemon: a server that dies of an error elsewhere must not hang here; what is queued was not acknowledged.
        self._thread = threading.Thread(target=self._run, name=f"storage-writer-{name}", daemon=True)
        self._thread.start()

    def put(self, group: Group) -> None:
        """Queues a group. Never blocks."""
        self._queue.put(group)

    def stop(self) -> None:
        """Returns when everything queued is committed, or when committing has failed."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            stopping = False
            while not stopping:
                groups, stopping = self._take()
                if groups:
                    self._commit(groups)
                    failpoints.reach("before_publish")
                    self._call(self._on_durable, groups[-1].number)
                    failpoints.reach("after_publish")
        # The thread's edge: whatever went wrong, the world must stop answering. LMDB would let the next commit
        # succeed after a failed fdatasync, although the one before it is gone.
        except BaseException as error:  # noqa: BLE001
            self._report(error)

    def _take(self) -> tuple[list[Group], bool]:
        """Waits for a group, then takes all that are queued; and whether there will be no more."""
        group = self._queue.get()
        groups: list[Group] = []
        size_bytes = 0
        while group is not None:
            groups.append(group)
            size_bytes += len(group.value)
            if size_bytes > COMMIT_BYTES_MAX:
                return groups, False
            try:
                group = self._queue.get_nowait()
            except Empty:
                return groups, False
        return groups, True

    def _report(self, error: BaseException) -> None:
        self.failed = True
        try:
            self._call(self._on_fatal, error)
        except RuntimeError:
            pass  # the loop is closed: nobody is left to answer to, and nobody was answered
