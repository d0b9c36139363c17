"""A consumer as a process of its own, for tests that kill it: effects and acknowledgement in one transaction.

python -m tests.promises.consumer_child ADDRESS SUBSCRIPTION CONSUMER OUTSTANDING_MAX

Each event of /in adds one to /out at its key and appends its revision to the stream `log-KEY` there.
"""

from __future__ import annotations

import asyncio
import sys

import ecumene
from ecumene.client import ClientSettings

SETTINGS = ClientSettings(backoff_first_ms=10, backoff_ms_max=200, reconnect_timeout_s=60)


async def consume(address: str, subscription: str, consumer: str, outstanding_max: int) -> None:
    """Goes on until it is killed; one that is fenced attaches again, as a supervised worker would."""
    async with ecumene.connect(address, settings=SETTINGS, timeout_s=30) as world:
        while True:
            try:
                await consume_once(world, subscription, consumer, outstanding_max)
            except ecumene.FencedError:
                continue


async def consume_once(world: ecumene.World, subscription: str, consumer: str, outstanding_max: int) -> None:
    """One attachment."""
    async with world.subscription(subscription).consume(consumer, outstanding_max=outstanding_max) as deliveries:
        async for delivery in deliveries:
            effects = world.transaction().acknowledge(delivery)
            for event in delivery:
                effects.increment("/out", event.key, 1)
                effects.append("/out", f"log-{event.key}", event.revision)
            try:
                await effects.commit()
            except ecumene.FencedError:
                continue  # these come again, to whoever has them now
            print(len(delivery), flush=True)


if __name__ == "__main__":
    asyncio.run(consume(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
