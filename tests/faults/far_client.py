"""A client in a network of its own: counts on a server, and tells on its standard output how far it is.

python -m tests.faults.far_client ADDRESS count      one counter, a number a line, until a line comes in; then the total
python -m tests.faults.far_client ADDRESS hold N     N sessions, each with a watch, then silence
"""

from __future__ import annotations

import asyncio
import sys

import ecumene
from ecumene.client import ClientSettings

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


def main(address: str, what: str, number: str = "0") -> None:
    """Runs one of them."""
    asyncio.run(count(address) if what == "count" else hold(address, int(number)))


if __name__ == "__main__":
    main(*sys.argv[1:])
