"""A node among the nodes of its world: a member under a lease, for as long as it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ecumene.client import EcumeneError, EntryExistsError, Lease, LeaseExpiredError, World

from agent_runtime.model.errors import AgentRuntimeError
from agent_runtime.node.logs import NodeLog
from agent_runtime.node.settings import NodeSettings
from agent_runtime.ownership.places import NODES

RETRY_S = 0.5


class NameTakenError(AgentRuntimeError):
    """Another living node has the name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"another runtime is registered as {name!r}: give this one a --name of its own")


class Membership:
    """Joins, joins again when the lease was lost, and leaves. `describe`: what the members' entry says."""

    def __init__(
        self, world: World, settings: NodeSettings, describe: Callable[[], Mapping[str, Any]], log: NodeLog
    ) -> None:
        self._world = world
        self._settings = settings
        self._describe = describe
        self._log = log
        self._lease: Lease | None = None
        self._is_lost = asyncio.Event()

    @property
    def is_certain(self) -> bool:
        """Whether the node is surely known as living."""
        return self._lease is not None and self._lease.is_certain

    async def join(self) -> None:
        """Become a member; waits for the lease of an earlier life under the same name to end.

        Raises:
            NameTakenError: another living node has the name.
            EcumeneError: the world refused, or cannot be reached.
        """
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + 2 * self._settings.lease_ttl_s + RETRY_S
        self._is_lost.clear()
        holder = f"node {self._settings.name}"[:64]
        lease = await self._world.lease(self._settings.lease_ttl_s, holder=holder, on_lost=self._lose)
        try:
            while True:
                try:
                    await lease.join(NODES, {self._settings.name: dict(self._describe())})
                    break
                except EntryExistsError:
                    if loop.time() > give_up_s:
                        raise NameTakenError(self._settings.name) from None
                    await asyncio.sleep(RETRY_S)
        except BaseException:
            await lease.revoke()
            raise
        self._lease = lease

    async def stay(self) -> None:
        """Join again whenever the lease was lost, until cancelled. Raises what `join` does."""
        while True:
            await self._is_lost.wait()
            self._log.write("was not heard of for too long, and joins again")
            try:
                await self.join()
            except LeaseExpiredError:
                self._is_lost.set()
                await asyncio.sleep(RETRY_S)

    async def leave(self) -> None:
        """Be a member no more."""
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.revoke()

    def _lose(self, _error: EcumeneError) -> None:
        self._is_lost.set()
