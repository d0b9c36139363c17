"""The worlds of a server: each in a directory of its own below the data directory."""

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from env_server.behaviours.registry import Behaviours
from env_server.clocks.loop_clock import LoopClock
from env_server.model.changes import Changes
from env_server.model.errors import AlreadyExists, Exhausted, HistoryMismatch, NotFound, Reason, Unavailable, WrongState
from env_server.model.limits import Limits
from env_server.model.names import check_world, is_world
from env_server.pipeline import World
from env_server.storage.lmdb_log import LmdbCommitLog

MAIN = "main"
WORLDS_OPEN_MAX = 64
_DOOMED = ".deleted-"


class _OpenWorld(NamedTuple):
    """A world with what it stands on; `reader` is the thread that reads its log."""

    world: World
    log: LmdbCommitLog
    reader: ThreadPoolExecutor


class Worlds:
    """Open worlds by name. `on_fatal` is called when a world can no longer commit; the process must then end."""

    def __init__(
        self,
        directory: Path,
        limits: Limits,
        behaviours: Behaviours,
        on_fatal: Callable[[BaseException], None],
        new_history: Callable[[], str],
    ) -> None:
        self._directory = directory
        self._limits = limits
        self._behaviours = behaviours
        self._on_fatal = on_fatal
        self._new_history = new_history
        self._open_worlds: dict[str, _OpenWorld] = {}
        #: Names of worlds that are being deleted: their directories are still there.
        self._closing: set[str] = set()
        #: Set when the server is about to stop: nothing new is accepted.
        self.draining = False

    def open_all(self) -> None:
        """Opens every world found, and `main`, made when it is missing. Blocks while they are read.

        Raises:
            StorageError: a world cannot be opened; nothing of it is changed.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        for doomed in self._directory.glob(f"{_DOOMED}*"):  # a deletion that a crash interrupted
            shutil.rmtree(doomed)
        names = sorted(path.name for path in self._directory.iterdir() if path.is_dir() and is_world(path.name))
        for name in dict.fromkeys([MAIN, *names]):
            self._open(name)

    def get(self, name: str) -> World:
        """The world of that name; "" = main.

        Raises:
            Unavailable: DRAINING.
            NotFound: WORLD_NOT_FOUND.
            InvalidRequest: no possible name.
        """
        self._check_accepting()
        known = self._open_worlds.get(name or MAIN)
        if known is None:
            check_world(name)
            raise NotFound(Reason.WORLD_NOT_FOUND, world=name)
        return known.world

    async def create(self, name: str, if_absent: bool) -> World:
        """Makes an empty world, durable on return.

        Raises:
            AlreadyExists, InvalidRequest.
            Exhausted: WORLD_QUOTA.
            Unavailable: RECOVERING while a world of that name is being deleted.
        """
        check_world(name)
        self._check_accepting()
        if name in self._closing:
            problem = f"the world {name} is being deleted"
            raise Unavailable(Reason.RECOVERING, problem, retry_delay_ms=self._limits.retry_delay_ms)
        known = self._open_worlds.get(name)
        if known is not None:
            if if_absent:
                return await _durable(known.world)
            raise AlreadyExists(Reason.WORLD_EXISTS, world=name)
        if len(self._open_worlds) >= WORLDS_OPEN_MAX:
            raise Exhausted(
                Reason.WORLD_QUOTA,
                f"{len(self._open_worlds)} worlds are open, as many as may be",
                metadata={"limit": "worlds_open_max", "max": str(WORLDS_OPEN_MAX)},
            )
        return await _durable(self._open(name))

    def list(self) -> list[World]:
        """All worlds by name."""
        return [self._open_worlds[name].world for name in sorted(self._open_worlds)]

    async def delete(self, name: str, history: str) -> None:
        """Deletes a world and its data, for ever. Its watches end with WORLD_NOT_FOUND.

        Raises:
            NotFound.
            HistoryMismatch: it is another world than the caller thinks.
            WrongState: `main` stays.
        """
        world = self.get(name)
        if history and history != world.history:
            raise HistoryMismatch(world.name, history=world.history, asked=history)
        if world.name == MAIN:
            raise WrongState(Reason.HAS_CHILDREN, "the world main cannot be deleted", metadata={"world": MAIN})
        gone = self._open_worlds.pop(world.name)
        self._closing.add(world.name)
        try:
            world.delete()
            await self._close(gone)
            doomed = self._directory / f"{_DOOMED}{world.history}"
            (self._directory / world.name).rename(doomed)
        finally:
            self._closing.discard(world.name)
        await asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, doomed)

    async def stop(self) -> None:
        """Waits until all is durable and answered, completes the state tables, closes everything."""
        self.draining = True
        for _, known in sorted(self._open_worlds.items()):
            await self._close(known)
        self._open_worlds.clear()

    def _check_accepting(self) -> None:
        if self.draining:
            raise Unavailable(Reason.DRAINING, "the server is about to stop", retry_delay_ms=1000)

    def _open(self, name: str) -> World:
        loop = asyncio.get_running_loop()
        log = LmdbCommitLog.open(self._directory / name, self._limits, self._new_history)
        reader = ThreadPoolExecutor(1, thread_name_prefix=f"log-reader-{name}")

        async def read_log(from_revision: int, bytes_max: int) -> list[Changes]:
            return await loop.run_in_executor(reader, partial(log.read, from_revision, bytes_max))

        try:
            world = World(name, log, LoopClock(loop), self._limits, self._behaviours, read_log)
        except BaseException:
            log.close()
            raise
        log.start(call=loop.call_soon_threadsafe, on_durable=world.durable, on_fatal=self._on_fatal)
        self._open_worlds[name] = _OpenWorld(world, log, reader)
        return world

    async def _close(self, known: _OpenWorld) -> None:
        loop = asyncio.get_running_loop()
        stopped = loop.create_future()
        known.world.stop(lambda: stopped.set_result(None))
        await stopped
        await loop.run_in_executor(None, known.log.close)
        known.reader.shutdown()


async def _durable(world: World) -> World:
    """The world, once all that was applied to it is on the disk."""
    durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve() -> None:
        if not durable.done():  # done: the caller has gone
            durable.set_result(None)

    world.when_durable(resolve)
    await durable
    return world
