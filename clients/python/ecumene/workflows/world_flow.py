"""What a flow in a world stands on: a connection, a lease, and the watches of its script."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ecumene.client import ClientSettings, EcumeneError
from ecumene.client import connect as connect_world
from ecumene.workflows.callers import Caller
from ecumene.workflows.errors import Failure, FlowLostError, NoHostError
from ecumene.workflows.hosts import HostsWatch
from ecumene.workflows.limits import FlowLimits
from ecumene.workflows.messages import HOSTS, flow_path
from ecumene.workflows.world_link import WorldLink, make_places

logger = logging.getLogger("ecumene.workflows")


class WorldFlow:
    """A flow's connection, lease and link."""

    caller: Caller

    def __init__(self, name: str, limits: FlowLimits) -> None:
        self._name = name
        self._limits = limits
        self._closes: list[Callable[[], Awaitable[None]]] = []

    async def open(self, server: str, world_name: str, settings: ClientSettings, timeout_s: float) -> None:
        """Connect, and wait for a host. When it fails nothing is left."""
        try:
            await self._open(server, world_name, settings, timeout_s)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Give the lease back, which ends the flow everywhere, and close the connection."""
        while self._closes:
            try:
                await self._closes.pop()()
            except EcumeneError as error:
                logger.info("closing flow %s: %s", self._name, error)

    async def _open(self, server: str, world_name: str, settings: ClientSettings, timeout_s: float) -> None:
        world = await connect_world(server, world_name, settings=settings, timeout_s=timeout_s)
        self._closes.append(world.close)
        await make_places(world)
        lease = await world.lease(self._limits.lease_ttl_s, holder=f"workflow {self._name}", on_lost=self._lose)
        self._closes.append(lease.revoke)
        await world.environment(flow_path(self._name)).register(lease_id=lease.id)
        self.caller = Caller(self._name, str(lease.id), self._limits, asyncio.get_running_loop())
        hosts = HostsWatch(world, self._lose)
        self._closes.append(hosts.close)
        await hosts.start()
        hosts.add(self.caller)
        link = WorldLink(world, self.caller, lease.id)
        self._closes.append(link.close)
        await link.start()
        await self._wait_for_host(server)

    async def _wait_for_host(self, server: str) -> None:
        placing = self.caller.placing
        if not await placing.wait_for_host(self._limits.host_wait_s):
            raise NoHostError(
                f"no host came to {HOSTS} within {self._limits.host_wait_s} s: start one with "
                f"`ecumene runtime --server {server} --workflow-module ...`"
            )

    def _lose(self, error: EcumeneError) -> None:
        self.caller.end(Failure(FlowLostError.code, f"the flow's lease or connection ended: {error}"))
