"""The worlds of a server: each in a directory of its own below the data directory, copies of them beside those."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from env_server.behaviours.description import KindDescription
from env_server.behaviours.registry import Behaviours
from env_server.model.errors import AlreadyExists, HistoryMismatch, Reason, Unavailable, WrongState
from env_server.model.limits import Limits
from env_server.model.names import check_snapshot, check_world, is_world
from env_server.model.ports import Origin
from env_server.open_world import OpenWorld
from env_server.pipeline import World, WorldDescription
from env_server.storage.snapshots import Snapshot
from env_server.world_copies import Listing, Made, WorldCopies
from env_server.world_opening import MAIN, WORLDS_OPEN_MAX, WorldOpening

_DOOMED = ".deleted-"
_Result = TypeVar("_Result")


class Worlds:
    """Worlds by name, open or not. `on_fatal` is called when a world can no longer commit; the process must then end.

    At most `worlds_open_max` are open at a time; how many there are is bounded by the disk alone. A world that somebody
    asks for is opened, and one that nobody needs is closed for it.
    """

    def __init__(
        self,
        directory: Path,
        limits: Limits,
        behaviours: Behaviours,
        on_fatal: Callable[[BaseException], None],
        new_history: Callable[[], str],
        worlds_open_max: int = WORLDS_OPEN_MAX,
    ) -> None:
        self.limits = limits
        self.worlds_open_max = worlds_open_max
        self._directory = directory
        self._behaviours = behaviours
        self._opening = WorldOpening(directory, limits, behaviours, on_fatal, new_history, worlds_open_max)
        #: Names of worlds that are being deleted: their directories are still there.
        self._deleting: set[str] = set()
        #: Names of worlds that are being created, restored or forked.
        self._making: set[str] = set()
        self._copies = WorldCopies(directory, limits, new_history)
        #: Set when the server is about to stop: nothing new is accepted.
        self.draining = False
        #: Calls that were refused since then.
        self.refused = 0

    async def start(self) -> None:
        """Opens `main`, made when it is missing, and every world in which something may go on without a client.

        Raises:
            StorageError: a world cannot be opened; nothing of it is changed.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        for doomed in self._directory.glob(f"{_DOOMED}*"):  # a deletion that a crash interrupted
            shutil.rmtree(doomed)
        self._copies.tidy()
        await self._opening.start(
            [path.name for path in self._directory.iterdir() if is_world(path.name) and path.is_dir()]
        )

    async def reach(self, name: str) -> World:
        """The world of that name, "" = main; opened when it is not. Returns in the same loop step when it is.

        Nothing can close it before the caller has had his op executed, in the loop step of the return, or counts
        among its users.

        Raises:
            Unavailable: DRAINING.
            NotFound: WORLD_NOT_FOUND.
            InvalidRequest: no possible name.
            Exhausted: WORLD_QUOTA: too many are open, and none of them can be closed.
            WorldUnreadable: it cannot be opened.
        """
        self._check_accepting()
        known = self._opening.find(name or MAIN)
        if known is None:
            check_world(name)
            known = await self._opening.open(name)
            self._check_accepting()
        return known.world

    def describe_kinds(self, kind: str) -> list[KindDescription]:
        """What a kind of environment offers; "" = all kinds.

        Raises:
            NotFound: KIND_NOT_FOUND.
        """
        return self._behaviours.describe(kind)

    async def create(self, name: str, if_absent: bool) -> WorldDescription:
        """Makes an empty world, durable on return.

        Raises:
            AlreadyExists, InvalidRequest.
            Exhausted: WORLD_QUOTA.
            Unavailable: RECOVERING while a world of that name is being deleted or made.
        """
        check_world(name)
        self._check_accepting()
        if if_absent and name in self._opening:
            return await _tell(await self.reach(name))
        self._check_free(name)
        self._making.add(name)
        try:
            async with self._opening.place():
                world = self._opening.make(name)
        finally:
            self._making.discard(name)
        return await _tell(world)

    async def list(self) -> list[WorldDescription]:
        """All worlds by name, as of one moment: what is told of them is durable on return."""
        worlds, closed = self._opening.list()
        found = [*closed, *await asyncio.gather(*map(_tell, worlds))]
        return sorted(found, key=lambda described: described.name)

    def count(self) -> tuple[int, int]:
        """How many worlds are open, and how many there are."""
        return self._opening.open_count, self._opening.count

    async def delete(self, name: str, history: str) -> Origin:
        """Deletes a world and its data, for ever; returns how far it came. Its watches end with WORLD_NOT_FOUND.

        Raises:
            NotFound.
            HistoryMismatch: it is another world than the caller thinks.
            WrongState: PROTECTED: `main` stays.
        """
        self._check_accepting()
        name = name or MAIN
        await self._opening.come_to_rest(name)
        origin = self._opening.origin_of(name)
        if history and history != origin.history:
            raise HistoryMismatch(name, history=origin.history, asked=history)
        if name == MAIN:
            raise WrongState(Reason.PROTECTED, "the world main cannot be deleted", metadata={"world": MAIN})
        gone = self._opening.take_out(name)
        self._deleting.add(name)
        try:
            if gone is not None:
                gone.world.delete()
                await gone.close()
            doomed = self._directory / f"{_DOOMED}{origin.history}"
            (self._directory / name).rename(doomed)
        finally:
            self._deleting.discard(name)
        await asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, doomed)
        return origin

    async def snapshot(self, name: str, snapshot: str) -> Snapshot:
        """Copies a world as it stands at its durable revision, while it goes on.

        The copy is whole and on the disk on return. It goes on when the caller is cancelled.

        Raises:
            NotFound, InvalidRequest, Unavailable.
            AlreadyExists: SNAPSHOT_EXISTS.
            Exhausted: SNAPSHOT_QUOTA; STORAGE_QUOTA when the disk has no room.
        """
        known = await self._reach_open(name)
        world = known.world
        taking = self._copies.take(known.log, world.name, snapshot, world.clock.wall_ns())
        return await self._copies.to_its_end(_using(world, taking), f"snapshot of {world.name}")

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

    async def restore(self, snapshot: str, name: str) -> WorldDescription:
        """Makes a world of a snapshot, with a new history; durable on return.

        Raises:
            NotFound: SNAPSHOT_NOT_FOUND.
            SnapshotDamaged: it is not what was written.
            AlreadyExists, InvalidRequest, Exhausted, Unavailable: as `create`; STORAGE_QUOTA when the disk has no room.
        """
        check_snapshot(snapshot)
        making = self._make(name, partial(self._copies.restore, snapshot, name))
        return await self._copies.to_its_end(making, f"restoring {name}")

    async def fork(self, source: str, name: str) -> WorldDescription:
        """Makes a world that begins as another one stands at its durable revision, with a new history.

        Raises:
            NotFound.
            AlreadyExists, InvalidRequest, Exhausted, Unavailable: as `create`; STORAGE_QUOTA when the disk has no room.
        """
        known = await self._reach_open(source)
        world = known.world
        making = self._make(name, partial(self._copies.fork, known.log, world.name, name))
        return await self._copies.to_its_end(_using(world, making), f"forking {world.name} into {name}")

    async def compact(self, name: str, revision: int) -> int:
        """Forgets a world's events below a revision, 0 = its durable one; returns the oldest that is left.

        Raises:
            NotFound, Unavailable.
            OutOfRange: REVISION_IN_FUTURE.
        """
        world = await self.reach(name)
        compacted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def done(first_revision: int) -> None:
            if not compacted.done():  # done: the caller has gone
                compacted.set_result(first_revision)

        async def compact() -> int:
            world.compact(revision, done)
            return await compacted

        return await _using(world, compact())

    async def stop(self) -> None:
        """Waits until all is durable and answered, completes the state tables, closes everything."""
        self.draining = True
        await self._copies.stop()
        await self._opening.stop()

    async def _reach_open(self, name: str) -> OpenWorld:
        world = await self.reach(name)
        known = self._opening.find(world.name)
        assert known is not None, "it is open in the loop step of the return"
        return known

    def _check_accepting(self) -> None:
        if self.draining:
            self.refused += 1
            raise Unavailable(Reason.DRAINING, "the server is about to stop", retry_delay_ms=1000)

    def _check_free(self, name: str) -> None:
        """Whether a world of that name may be made."""
        check_world(name)
        if name in self._opening:
            raise AlreadyExists(Reason.WORLD_EXISTS, world=name)
        if name in self._deleting or name in self._making:
            problem = f"the world {name} is being {'deleted' if name in self._deleting else 'made'}"
            raise Unavailable(Reason.RECOVERING, problem, retry_delay_ms=self.limits.retry_delay_ms)

    async def _make(self, name: str, make: Callable[[], Awaitable[Made]]) -> WorldDescription:
        """Serves what `make` has made, loaded already: other worlds go on while a large one is loaded."""
        self._check_accepting()
        self._check_free(name)
        self._making.add(name)
        try:
            async with self._opening.place():
                world = self._opening.serve(name, *await make())
        finally:
            self._making.discard(name)
        return await _tell(world)


def _using(world: World, work: Coroutine[Any, Any, _Result]) -> Coroutine[Any, Any, _Result]:
    """The result of `work`, to be awaited: from this loop step until its end the world stays open."""
    world.users += 1

    async def run() -> _Result:
        try:
            return await work
        finally:
            world.users -= 1

    return run()


async def _tell(world: World) -> WorldDescription:
    """The world as it is now, once all that was applied to it is on the disk."""
    described = world.describe()
    durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve() -> None:
        if not durable.done():  # done: the caller has gone
            durable.set_result(None)

    world.when_seen(resolve)
    await durable
    return described
