"""A client in a network of its own: counts on a server, and tells on its standard output how far it is.

python -m tests.faults.far_client ADDRESS count      one counter, a number a line, until a line comes in; then the total
python -m tests.faults.far_client ADDRESS hold N     N sessions, each with a watch, then silence
python -m tests.faults.far_client ADDRESS sit N      N people in seats of a node, each reading its log, likewise
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

import ecumene
from ecumene.client import ClientSettings
from ecumene.client.runtime_nodes import RuntimeNode

SETTINGS = ClientSettings(backoff_first_ms=50, backoff_ms_max=500, attempt_timeout_s=2, reconnect_timeout_s=120)


async def count(address: str) -> None:
    """Each increment must succeed, sooner or later, once."""
    asked = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    async with ecumene.connect(address, settings=SETTINGS) as world:
        number = 0
        while not asked.done():
            number += 1
            written = await world.environment("/").increment("n", 1)
            print(written.value, flush=True)
        print(f"total {number}", flush=True)


async def hold(address: str, sessions: int) -> None:
    """Opens them and does nothing more."""
    worlds = [await ecumene.connect(address, settings=SETTINGS) for _ in range(sessions)]
    watches = [world.watch_frames(from_revision=1) for world in worlds]
    for watch in watches:
        await anext(watch)
    print("ready", flush=True)
    await asyncio.Event().wait()


async def sit(address: str, people: int) -> None:
    """Each has a connection of its own, takes the place of an agent, and follows what the node writes."""
    async with contextlib.AsyncExitStack() as stack:
        reading = []
        for number in range(people):
            node = await stack.enter_async_context(RuntimeNode(address))
            await stack.enter_async_context(node.sit("r", f"agent-{number}", actor="far", timeout_s=3600))
            reading.append(asyncio.create_task(read_log(node), name=f"log of {number}"))
        print("ready", flush=True)
        await asyncio.gather(*reading)


async def read_log(node: RuntimeNode) -> None:
    """All that comes."""
    async for _ in node.logs(follow=True):
        pass


def main(address: str, what: str, number: str = "0") -> None:
    """Runs one of them."""
    asyncio.run({"hold": hold, "sit": sit}[what](address, int(number)) if what != "count" else count(address))


if __name__ == "__main__":
    main(*sys.argv[1:])
