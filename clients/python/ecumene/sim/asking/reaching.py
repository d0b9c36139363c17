"""Does something to many agents of a run, on whichever nodes they live."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from ecumene.client.runtime_model import Intervention
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.client.world import World
from ecumene.launch.node_runs import use_host

AGENTS_AT_A_TIME = 16

Deed = Callable[[RuntimeNode, str], Awaitable[Intervention]]
"""What is done to an agent by its node."""


async def reach_agents(world: World, run: str, agents: Iterable[str], deed: Deed) -> None:
    """Each agent once, in any order; whoever does it again must change nothing by it. Raises EcumeneError."""
    room = asyncio.Semaphore(AGENTS_AT_A_TIME)

    async def reach(agent: str) -> None:
        async with room:
            await use_host(world, run, lambda node: deed(node, agent), agent=agent)

    await asyncio.gather(*map(reach, agents))
