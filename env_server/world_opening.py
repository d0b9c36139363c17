"""Opens stored worlds when somebody asks for them, and closes those that nobody needs to make room.

    on the disk ──asked for──► loaded on a thread, other worlds go on ──► open ──idle longest, room is needed──► closed

Whoever asks for a world that is not open waits until it is; those who ask for the same one wait together.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

from env_server.behaviours.registry import Behaviours
from env_server.closed_worlds import ClosedWorlds
from env_server.key_queues.slots import Pool
from env_server.model.errors import Exhausted, NotFound, Reason, WorldUnreadable
from env_server.model.limits import Limits
from env_server.model.ports import Origin
from env_server.open_world import OpenWorld, open_world
from env_server.open_worlds import OpenWorlds
from env_server.pipeline import World, WorldDescription
from env_server.pipeline.recovery import Recovery, load_world
from env_server.storage.errors import StorageError
from env_server.storage.layout import DATA_FILE
from env_server.storage.lmdb_log import LmdbCommitLog

WORLDS_OPEN_MAX: Final = 64
MAIN: Final = "main"
_LOADS_MAX: Final = 2
"""Worlds loaded at a time."""

_log = logging.getLogger(__name__)


class WorldOpening:
    """The worlds of a directory: which are open, and which are not. `on_fatal` as in Worlds."""

    def __init__(
        self,
        directory: Path,
        limits: Limits,
        behaviours: Behaviours,
        on_fatal: Callable[[BaseException], None],
        new_history: Callable[[], str],
        worlds_open_max: int,
    ) -> None:
        self._directory = directory
        self._limits = limits
        self._behaviours = behaviours
        self._on_fatal = on_fatal
        self._new_history = new_history
        self._pool = Pool(limits.concurrency_max)
        self._open = OpenWorlds(worlds_open_max, MAIN, self._put_away)
        self._closed = ClosedWorlds(directory)
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._loader = ThreadPoolExecutor(_LOADS_MAX, thread_name_prefix="world-loader")

    @property
    def open_count(self) -> int:
        """Worlds that are open."""
        return len(self._open)

    @property
    def count(self) -> int:
        """Worlds that there are, open or not."""
        return len(self._open) + len(self._closed)

    def __contains__(self, name: str) -> bool:
        return name in self._open or name in self._closed

    async def start(self, names: list[str]) -> None:
        """Opens `main`, made when it is missing, and each of the stored worlds in which something may go on.

        Raises:
            StorageError: one cannot be opened; nothing of it is changed.
        """
        self.make(MAIN)
        left = [name for name in names if name != MAIN and not self._closed.find_note(name)]
        for name in left:
            self._closed.look_at(name, self._limits.map_bytes)
        # Those used last are opened last: should they be too many, they are the ones that stay.
        for name in sorted(left, key=lambda name: (self._directory / name / DATA_FILE).stat().st_mtime_ns):
            try:
                await self._load(name)
            except Exhausted:
                _log.warning("the world %s waits until somebody asks for it: too many are alive", name)

    def find(self, name: str) -> OpenWorld | None:
        """The world of that name, if it is open."""
        return self._open.find(name)

    async def open(self, name: str) -> OpenWorld:
        """The world of that name, opened when it is not; in the loop step of the return it is open and nobody's prey.

        Raises:
            NotFound: WORLD_NOT_FOUND.
            Exhausted: WORLD_QUOTA: too many are open, and none can be closed.
            WorldUnreadable: what is stored cannot be opened.
        """
        with self._open.wanted(name):
            while (known := self._open.find(name)) is None:
                await self._open.wait_until_left(name)
                if name not in self._closed:
                    raise NotFound(Reason.WORLD_NOT_FOUND, world=name)
                task = self._loading.get(name)
                if task is None:
                    self._loading[name] = task = asyncio.create_task(self._load(name), name=f"opening {name}")
                    task.add_done_callback(lambda task, name=name: self._loaded(name, task))  # type: ignore[misc]
                try:
                    await asyncio.shield(task)
                except (StorageError, OSError) as error:
                    _log.error("the world %s cannot be opened: %s", name, error)
                    raise WorldUnreadable(name) from None
            return known

    def place(self) -> AbstractAsyncContextManager[None]:
        """A place for a world that is about to be made; see OpenWorlds."""
        return self._open.place()

    def make(self, name: str) -> World:
        """Opens the world of that name in this loop step, made when it is missing."""
        return self.serve(name, LmdbCommitLog.open(self._directory / name, self._limits, self._new_history), None)

    def serve(self, name: str, log: LmdbCommitLog, recovery: Recovery | None) -> World:
        """Makes a world of what its log has stored, and opens it to everybody."""
        opened = open_world(
            name, log, recovery, self._limits, self._behaviours, self._on_fatal, self._pool, self._new_history()
        )
        self._closed.discard(name)
        self._open.add(opened)
        return opened.world

    async def come_to_rest(self, name: str) -> None:
        """Returns when the world is neither being opened nor being closed (any more)."""
        while name in self._loading or self._open.is_leaving(name):
            if name in self._loading:
                await asyncio.wait([self._loading[name]])
            await self._open.wait_until_left(name)

    def origin_of(self, name: str) -> Origin:
        """How far a world has come, open or not.

        Raises:
            NotFound: WORLD_NOT_FOUND.
        """
        known = self._open.find(name)
        if known is not None:
            return Origin(name, known.world.history, known.world.durable_revision)
        if name in self._closed:
            return Origin(name, self._closed[name].history, self._closed[name].revision)
        raise NotFound(Reason.WORLD_NOT_FOUND, world=name)

    def take_out(self, name: str) -> OpenWorld | None:
        """Takes out a world at rest that is to be deleted: nobody finds it any more. The caller closes an open one."""
        self._closed.discard(name)
        return self._open.remove(name) if name in self._open else None

    def list(self) -> tuple[list[World], list[WorldDescription]]:
        """Worlds that are open, and those that are not."""
        return [known.world for known in self._open.list()], self._closed.list()

    async def stop(self) -> None:
        """Closes everything, cleanly."""
        await asyncio.gather(*self._loading.values(), return_exceptions=True)
        await self._open.settle()
        for known in sorted(self._open.list(), key=lambda one: one.world.name):
            await known.close()
            if known.world.name != MAIN and not known.world.must_stay:
                self._closed.add(known.world.describe())
                self._closed.leave_note(known.world.name)
            self._open.remove(known.world.name)
        self._loader.shutdown()

    async def _load(self, name: str) -> None:
        async with self._open.place():
            log, recovery = await asyncio.get_running_loop().run_in_executor(self._loader, self._read, name)
            self.serve(name, log, recovery)

    def _read(self, name: str) -> tuple[LmdbCommitLog, Recovery]:
        log = LmdbCommitLog.open(self._directory / name, self._limits, self._new_history)
        try:
            recovery = load_world(log, self._limits)
            self._closed.remove_note(name)  # only now: a world that cannot be opened does not hinder the next start
            return log, recovery
        except BaseException:
            log.close()
            raise

    def _loaded(self, name: str, task: "asyncio.Task[None]") -> None:
        del self._loading[name]
        if not task.cancelled():
            task.exception()  # all who waited may have gone

    def _put_away(self, known: OpenWorld) -> Coroutine[None, None, None]:
        name = known.world.name
        self._closed.add(known.world.describe())

        async def close() -> None:
            await known.close()
            await asyncio.get_running_loop().run_in_executor(None, self._closed.leave_note, name)
            await known.let_go()

        return close()
