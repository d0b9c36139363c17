"""Owning parts: one lease a worker, one entry a part, one term an ownership.

take ──► entry under the lease ──► its create revision: the term ──► every write of the part behind it
                                                                      │
lease ended, entry gone ──► FENCED, whatever is still sent  ◄─────────┘
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ecumene.client import (
    EcumeneError,
    EntryExistsError,
    EntryNotFoundError,
    EventFilter,
    EventType,
    FencedError,
    Json,
    Lease,
    Transacted,
    World,
)

from agent_runtime.model.errors import PartHeldError
from agent_runtime.model.parts import Part
from agent_runtime.ownership.cursors import Cursor, CursorFile, describe_cursor
from agent_runtime.ownership.places import RunPlaces, make_places

OnLost = Callable[[str], None]
"""Is told why all parts are lost."""


class CursorStore(Protocol):
    """Where the cursor of a held part goes."""

    async def write(self, cursor: Cursor) -> None:
        """Keep it, behind the fence."""


@dataclass(frozen=True, slots=True)
class OwnedPart:
    """A part that is owned.

    Attributes:
        term: a later owner's is higher.
        world: behind the fence: nothing that goes through it has an effect when the part is owned no more.
        cursor: where to go on.
        is_new: nobody owned it before.
    """

    part: Part
    term: int
    world: World
    cursor: Cursor
    cursor_store: CursorStore
    is_new: bool


class Owner:
    """Takes and gives back the parts of one run, for one worker."""

    def __init__(self, world: World, run: str, holder: str, ttl_s: float, on_lost: OnLost) -> None:
        """`holder`: who it is, for people. `on_lost` is called when the lease, and so every part, is lost."""
        self._world = world
        self._holder = holder
        self._ttl_s = ttl_s
        self._on_lost = on_lost
        self._lease: Lease | None = None
        self._leasing = asyncio.Lock()
        self.places = RunPlaces(run)

    async def start(self) -> None:
        """Make the run's places, where they are not there. Raises EcumeneError."""
        await make_places(self._world, self.places)

    async def take(self, part: Part, *, from_revision: int, wait_s: float) -> OwnedPart:
        """Own a part; a new one begins with the events from `from_revision` on.

        While somebody else holds it, this waits until it is let go, at most `wait_s`.

        Raises PartHeldError; LaunchError if the run has cut it otherwise; EcumeneError.
        """
        if not wait_s:
            return await self._hold(part, from_revision)
        try:
            async with asyncio.timeout(wait_s):
                return await self._wait(part, from_revision)
        except TimeoutError as error:
            raise PartHeldError(part.name, wait_s) from error

    async def give_back(self, owned: OwnedPart) -> None:
        """Own a part no more. Raises EcumeneError; it is then given back by the end of the lease."""
        try:
            await self._world.environment(self.places.parts).delete(owned.part.name, created_revision=owned.term)
        except (FencedError, EntryNotFoundError):
            pass  # somebody else's by now, or nobody's

    async def close(self) -> None:
        """Give back all at once. Raises EcumeneError; the lease then ends by itself."""
        lease, self._lease = self._lease, None
        if lease is not None and not lease.is_ended:
            await lease.revoke()

    async def _wait(self, part: Part, from_revision: int) -> OwnedPart:
        gone = EventFilter(path_prefix=self.places.parts, key_glob=part.name, types=(EventType.ENTRY_DELETED,))
        async with self._world.watch(gone) as deletions:
            while True:
                # Asked on the stream on which the watch was begun, behind it: no deletion falls in between.
                try:
                    return await self._hold(part, from_revision)
                except PartHeldError:
                    await anext(deletions)

    async def _hold(self, part: Part, from_revision: int) -> OwnedPart:
        loop = asyncio.get_running_loop()
        asked = loop.create_task(self._register(part, from_revision), name=f"take part {part.name}")
        try:
            done = await asyncio.shield(asked)
        except asyncio.CancelledError:
            # It may be taken all the same, by somebody who does not know.
            await asyncio.wait({asked})
            if not asked.cancelled() and asked.exception() is None:
                await self._drop(part, asked.result().revision)
            raise
        except EntryExistsError as error:
            raise PartHeldError(part.name, 0.0) from error
        term, is_new = done.revision, done.written[1].changed
        world = self._world.fenced(self.places.parts, part.name, term)
        cursor_store = CursorFile(world, self.places.cursors, part)
        try:
            cursor = Cursor.at_start(part, from_revision - 1) if is_new else await cursor_store.read()
        except BaseException:
            await self._drop(part, term)
            raise
        return OwnedPart(part, term, world, cursor, cursor_store, is_new)

    async def _register(self, part: Part, from_revision: int) -> Transacted:
        """Take the part, and note where it begins unless somebody has: in one revision."""
        lease = await self._get_lease()
        value: Json = {"holder": self._holder, "rows": [part.first, part.end]}
        start = describe_cursor(part, Cursor.at_start(part, from_revision - 1))
        transaction = self._world.transaction()
        transaction.create(self.places.parts, part.name, value, lease_id=lease.id)
        transaction.create(self.places.cursors, part.name, start, if_absent=True)
        return await transaction.commit()

    async def _drop(self, part: Part, term: int) -> None:
        try:
            await self._world.environment(self.places.parts).delete(part.name, created_revision=term)
        except EcumeneError:
            pass  # it goes with the lease

    async def _get_lease(self) -> Lease:
        """The worker's lease; a new one if it has lost the last."""
        async with self._leasing:
            if self._lease is None or self._lease.is_ended:
                self._lease = await self._world.lease(self._ttl_s, holder=self._holder, on_lost=self._lost)
            return self._lease

    def _lost(self, error: EcumeneError) -> None:
        self._on_lost(" ".join(str(error).split()))
