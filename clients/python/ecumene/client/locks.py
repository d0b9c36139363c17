"""Locks: an entry under a lease, there while somebody holds it; its revision fences off older holders."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING

from ecumene.client.errors import DeadlineExceededError, ErrorDetails, Executed
from ecumene.client.model import EventFilter, EventType, Value, Written
from ecumene.client.reasons import EntryExistsError, FencedError

if TYPE_CHECKING:
    from ecumene.client.leases import Lease
    from ecumene.client.world import World


class Lock:
    """A lock at an entry's place, held under a lease: `async with world.lock("/bank", "till", lease) as token:`.

    It is free again when the block ends, or when the lease does. A holder that does not know yet that it has lost the
    lock is stopped where it writes, by the token:

        transaction.require("/bank", "till", created_revision=token)      else FencedError
    """

    def __init__(self, world: World, path: str, key: str, lease: Lease, value: Value, timeout_s: float | None) -> None:
        self._world = world
        self._lease = lease
        self._value = value
        self._timeout_s = timeout_s
        self.path = path
        self.key = key
        self.token: int = 0
        """The revision in which it was taken; 0 = it is not held."""

    def __repr__(self) -> str:
        return f"<Lock {self.key!r} in {self.path}{f', held with {self.token}' if self.token else ''}>"

    async def acquire(self) -> int:
        """Wait until it is free, take it, and return the token: higher than that of any holder before.

        Raises:
            DeadlineExceededError: it was not free within `timeout_s`.
            LeaseExpiredError: the lease has ended.
            EcumeneError: the server refused; the class says why.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                self.token = await self._take_or_wait()
        except TimeoutError as error:
            message = f"the lock {self.key!r} in {self.path} was not free within {self._timeout_s} s"
            details = ErrorDetails(message=message, reason="DEADLINE", executed=Executed.UNKNOWN)
            raise DeadlineExceededError(details) from error
        return self.token

    async def release(self) -> None:
        """Free it.

        Raises:
            FencedError: it was not held any more.
        """
        token, self.token = self.token, 0
        await self._world.environment(self.path).delete(self.key, created_revision=token)

    async def __aenter__(self) -> int:
        return await self.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.release()
        except FencedError:
            if error is None:
                raise

    async def _take_or_wait(self) -> int:
        try:
            return await self._take()
        except EntryExistsError:
            pass
        gone = EventFilter(path_prefix=self.path, types=(EventType.ENTRY_DELETED,))
        async with self._world.watch(gone) as deletions:
            while True:
                # Asked on the stream on which the watch was begun, behind it: no deletion falls in between.
                try:
                    return await self._take()
                except EntryExistsError:
                    pass
                async for event in deletions:
                    if (event.path, event.key) == (self.path, self.key):
                        break

    async def _take(self) -> int:
        loop = asyncio.get_running_loop()
        place = self._world.environment(self.path)
        asked = loop.create_task(
            place.create(self.key, self._value, lease_id=self._lease.id), name=f"ecumene lock {self.path} {self.key}"
        )
        try:
            return (await asyncio.shield(asked)).revision
        except asyncio.CancelledError:
            # It may be taken all the same; nobody would ever free it.
            asked.add_done_callback(self._give_back)
            raise

    def _give_back(self, asked: asyncio.Task[Written]) -> None:
        if not asked.cancelled() and asked.exception() is None:
            freed = self._world.environment(self.path).delete(self.key, created_revision=asked.result().revision)
            task = asyncio.get_running_loop().create_task(freed, name=f"ecumene unlock {self.path} {self.key}")
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
