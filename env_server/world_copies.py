"""Copies of worlds: snapshots beside the worlds, and directories of new worlds that begin as copies.

What copies and what loads blocks, so it happens on a thread of its own, one after the other: copies are bound by the
disk. A new world is made under a temporary name and gets its own when all of it is on the disk.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from env_server.model.errors import NotFound, Reason
from env_server.model.limits import Limits
from env_server.model.names import check_snapshot
from env_server.model.ports import Origin
from env_server.pipeline.recovery import Recovery, load_world
from env_server.storage import layout
from env_server.storage.copies import give_history, publish, remove_unfinished, unfinished
from env_server.storage.errors import StorageClosed
from env_server.storage.lmdb_log import LmdbCommitLog
from env_server.storage.read_only import look_into
from env_server.storage.snapshots import Snapshot, Snapshots

SNAPSHOTS = ".snapshots"

_Result = TypeVar("_Result")
Listing = tuple[list[Snapshot], list[str]]
"""Snapshots, oldest first, and the names of those that cannot be read."""
Made = tuple[LmdbCommitLog, Recovery]
"""The log of a new world, and what it has stored, in memory."""


class WorldCopies:
    """Makes and keeps copies below a server's data directory. Errors are those of `Worlds`."""

    def __init__(self, directory: Path, limits: Limits, new_id: Callable[[], str]) -> None:
        self._directory = directory
        self._limits = limits
        self._new_id = new_id
        self._snapshots = Snapshots(directory / SNAPSHOTS)
        self._copier = ThreadPoolExecutor(1, thread_name_prefix="world-copier")
        #: What goes on although its caller has gone: half a copy is of no use.
        self._tasks: set[asyncio.Task[Any]] = set()

    def tidy(self) -> None:
        """Removes what a crash has left; for the start."""
        remove_unfinished(self._directory)
        self._snapshots.tidy()

    async def take(self, log: LmdbCommitLog, world: str, snapshot: str, wall_ns: int) -> Snapshot:
        """A snapshot of the world in an open log; "" = it gets a name. Goes on when the caller is cancelled."""
        if snapshot:
            check_snapshot(snapshot)
        take = partial(self._snapshots.take, log, world, snapshot, self._new_id(), wall_ns)
        return await self.to_its_end(self._on_copier(take, world), f"snapshot of {world}")

    async def find_all(self, world: str) -> Listing:
        """The snapshots of a world; "" = of all."""
        found, damaged = await asyncio.get_running_loop().run_in_executor(None, self._snapshots.find_all)
        return [snapshot for snapshot in found if world in ("", snapshot.origin.world)], damaged

    async def delete(self, snapshot: str) -> None:
        """Deletes a snapshot, for ever."""
        check_snapshot(snapshot)
        await self._on_copier(partial(self._snapshots.delete, snapshot), "")

    async def restore(self, snapshot: str, name: str) -> Made:
        """The directory of the world `name`, made of a snapshot, opened and loaded. The name must be free."""
        return await self._make(name, partial(self._snapshots.restore, snapshot), "")

    async def fork(self, log: LmdbCommitLog, source: str, name: str) -> Made:
        """The directory of the world `name`, made of the world in an open log, opened and loaded."""

        def make(directory: Path, history: str) -> None:
            log.copy_to(directory / layout.DATA_FILE)
            head = look_into(directory).head
            give_history(directory, history, Origin(source, head.history, head.revision))

        return await self._make(name, make, source)

    async def to_its_end(self, work: Coroutine[Any, Any, _Result], name: str) -> _Result:
        """The result of `work`, which goes on when the caller is cancelled."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def stop(self) -> None:
        """Waits for what is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._copier.shutdown()

    async def _make(self, name: str, make: Callable[[Path, str], None], source: str) -> Made:
        token, history = self._new_id(), self._new_id()

        def run() -> Made:
            with unfinished(self._directory, token) as directory:
                make(directory, history)
                publish(directory, self._directory / name)
            log = LmdbCommitLog.open(self._directory / name, self._limits, self._new_id)
            try:
                return log, load_world(log, self._limits)
            except BaseException:
                log.close()
                raise

        return await self._on_copier(run, source)

    async def _on_copier(self, call: Callable[[], _Result], source: str) -> _Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._copier, call)
        except StorageClosed:  # deleted meanwhile
            raise NotFound(Reason.WORLD_NOT_FOUND, world=source) from None

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have gone, and nobody else wants it
