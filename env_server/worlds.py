"""The worlds of a server: each in a directory of its own below the data directory, copies of them beside those."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from env_server.behaviours.description import KindDescription
from env_server.behaviours.registry import Behaviours
from env_server.model.errors import AlreadyExists, Exhausted, HistoryMismatch, NotFound, Reason, Unavailable, WrongState
from env_server.model.limits import Limits
from env_server.model.names import check_snapshot, check_world, is_world
from env_server.model.ports import Origin
from env_server.open_world import OpenWorld, open_world
from env_server.pipeline import World
from env_server.pipeline.recovery import Recovery
from env_server.storage.lmdb_log import LmdbCommitLog
from env_server.storage.snapshots import Snapshot
from env_server.world_copies import Listing, Made, WorldCopies

MAIN = "main"
WORLDS_OPEN_MAX = 64
_DOOMED = ".deleted-"


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
        self._open_worlds: dict[str, OpenWorld] = {}
        #: Names of worlds that are being deleted: their directories are still there.
        self._closing: set[str] = set()
        #: Names of worlds that are being restored or forked.
        self._making: set[str] = set()
        self._copies = WorldCopies(directory, limits, new_history)
        #: Set when the server is about to stop: nothing new is accepted.
        self.draining = False
        #: Calls that were refused since then.
        self.refused = 0

    def open_all(self) -> None:
        """Opens every world found, and `main`, made when it is missing. Blocks while they are read.

        Raises:
            StorageError: a world cannot be opened; nothing of it is changed.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        for doomed in self._directory.glob(f"{_DOOMED}*"):  # a deletion that a crash interrupted
            shutil.rmtree(doomed)
        self._copies.tidy()
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

    def describe_kinds(self, kind: str) -> list[KindDescription]:
        """What a kind of environment offers; "" = all kinds.

        Raises:
            NotFound: KIND_NOT_FOUND.
        """
        return self._behaviours.describe(kind)

    async def create(self, name: str, if_absent: bool) -> World:
        """Makes an empty world, durable on return.

        Raises:
            AlreadyExists, InvalidRequest.
            Exhausted: WORLD_QUOTA.
            Unavailable: RECOVERING while a world of that name is being deleted or made.
        """
        check_world(name)
        self._check_accepting()
        known = self._open_worlds.get(name)
        if known is not None and if_absent:
            return await _durable(known.world)
        self._check_free(name)
        return await _durable(self._open(name))

    def list(self) -> list[World]:
        """All worlds by name."""
        return [self._open_worlds[name].world for name in sorted(self._open_worlds)]

    async def delete(self, name: str, history: str) -> Origin:
        """Deletes a world and its data, for ever; returns how far it came. Its watches end with WORLD_NOT_FOUND.

        Raises:
            NotFound.
            HistoryMismatch: it is another world than the caller thinks.
            WrongState: PROTECTED: `main` stays.
        """
        world = self.get(name)
        if history and history != world.history:
            raise HistoryMismatch(world.name, history=world.history, asked=history)
        if world.name == MAIN:
            raise WrongState(Reason.PROTECTED, "the world main cannot be deleted", metadata={"world": MAIN})
        gone = self._open_worlds.pop(world.name)
        self._closing.add(world.name)
        try:
            world.delete()
            await gone.close()
            doomed = self._directory / f"{_DOOMED}{world.history}"
            (self._directory / world.name).rename(doomed)
        finally:
            self._closing.discard(world.name)
        await asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, doomed)
        return Origin(world.name, world.history, world.durable_revision)

    async def snapshot(self, name: str, snapshot: str) -> Snapshot:
        """Copies a world as it stands at its durable revision, while it goes on.

        The copy is whole and on the disk on return. It goes on when the caller is cancelled.

        Raises:
            NotFound, InvalidRequest, Unavailable.
            AlreadyExists: SNAPSHOT_EXISTS.
            Exhausted: SNAPSHOT_QUOTA; STORAGE_QUOTA when the disk has no room.
        """
        world = self.get(name)
        return await self._copies.take(self._open_worlds[world.name].log, world.name, snapshot, world.clock.wall_ns())

    async def snapshots(self, name: str) -> Listing:
        """The snapshots of a world; "" = of all."""
        return await self._copies.find_all(name)

    async def delete_snapshot(self, snapshot: str) -> None:
        """Deletes a snapshot, for ever.

        Raises:
            NotFound: SNAPSHOT_NOT_FOUND.
        """
        self._check_accepting()
        await self._copies.delete(snapshot)

    async def restore(self, snapshot: str, name: str) -> World:
        """Makes a world of a snapshot, with a new history; durable on return.

        Raises:
            NotFound: SNAPSHOT_NOT_FOUND.
            SnapshotDamaged: it is not what was written.
            AlreadyExists, InvalidRequest, Exhausted, Unavailable: as `create`; STORAGE_QUOTA when the disk has no room.
        """
        check_snapshot(snapshot)
        making = self._make(name, partial(self._copies.restore, snapshot, name))
        return await self._copies.to_its_end(making, f"restoring {name}")

    async def fork(self, source: str, name: str) -> World:
        """Makes a world that begins as another one stands at its durable revision, with a new history.

        Raises:
            NotFound.
            AlreadyExists, InvalidRequest, Exhausted, Unavailable: as `create`; STORAGE_QUOTA when the disk has no room.
        """
        world = self.get(source)
        making = self._make(name, partial(self._copies.fork, self._open_worlds[world.name].log, world.name, name))
        return await self._copies.to_its_end(making, f"forking {world.name} into {name}")

    async def compact(self, name: str, revision: int) -> int:
        """Forgets a world's events below a revision, 0 = its durable one; returns the oldest that is left.

        Raises:
            NotFound, Unavailable.
            OutOfRange: REVISION_IN_FUTURE.
        """
        compacted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def done(first_revision: int) -> None:
            if not compacted.done():  # done: the caller has gone
                compacted.set_result(first_revision)

        self.get(name).compact(revision, done)
        return await compacted

    async def stop(self) -> None:
        """Waits until all is durable and answered, completes the state tables, closes everything."""
        self.draining = True
        await self._copies.stop()
        for _, known in sorted(self._open_worlds.items()):
            await known.close()
        self._open_worlds.clear()

    def _check_accepting(self) -> None:
        if self.draining:
            self.refused += 1
            raise Unavailable(Reason.DRAINING, "the server is about to stop", retry_delay_ms=1000)

    def _check_free(self, name: str) -> None:
        """Whether a world of that name may be made."""
        check_world(name)
        if name in self._open_worlds:
            raise AlreadyExists(Reason.WORLD_EXISTS, world=name)
        if name in self._closing or name in self._making:
            problem = f"the world {name} is being {'deleted' if name in self._closing else 'made'}"
            raise Unavailable(Reason.RECOVERING, problem, retry_delay_ms=self._limits.retry_delay_ms)
        if len(self._open_worlds) + len(self._making) >= WORLDS_OPEN_MAX:
            problem = f"{len(self._open_worlds)} worlds are open, as many as may be"
            raise Exhausted.of(Reason.WORLD_QUOTA, "worlds_open_max", WORLDS_OPEN_MAX, problem)

    async def _make(self, name: str, make: Callable[[], Awaitable[Made]]) -> World:
        """Serves what `make` has made, loaded already: other worlds go on while a large one is loaded."""
        self._check_accepting()
        self._check_free(name)
        self._making.add(name)
        try:
            world = self._serve(name, *await make())
        finally:
            self._making.discard(name)
        return await _durable(world)

    def _open(self, name: str) -> World:
        return self._serve(name, LmdbCommitLog.open(self._directory / name, self._limits, self._new_history), None)

    def _serve(self, name: str, log: LmdbCommitLog, recovery: Recovery | None) -> World:
        """Makes a world of what its log has stored, and opens it to everybody."""
        opened = open_world(name, log, recovery, self._limits, self._behaviours, self._on_fatal, self._new_history())
        self._open_worlds[name] = opened
        return opened.world


async def _durable(world: World) -> World:
    """The world, once all that was applied to it is on the disk."""
    durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve() -> None:
        if not durable.done():  # done: the caller has gone
            durable.set_result(None)

    world.when_durable(resolve)
    await durable
    return world
