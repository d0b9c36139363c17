"""Consumers that attach and read nothing: what they hold is bounded and goes to others in time; nobody waits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import ecumene
import grpc
import psutil
from ecumene import EventFilter
from env_api.v1 import subscription_service_pb2 as pb

from tests.services import ServerProcess

CONSUMERS = 60
VALUE = "x" * 1_000_000
VALUES = 12
GROWTH_BYTES_MAX = 250 << 20


async def test_consumers_that_read_nothing_hold_little_and_lose_what_they_hold(tmp_path: Path) -> None:
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    with ServerProcess(tmp_path / "data") as server:
        async with (
            ecumene.connect(server.address) as world,
            grpc.aio.insecure_channel(server.address, options=options) as channel,
        ):
            await world.environment("/in").register()
            names = [f"s{number}" for number in range(CONSUMERS)]
            for name in names:
                await world.subscription(name).create(EventFilter(path_prefix="/in"), ack_timeout_ms=2000)
            for number in range(VALUES):
                await world.environment("/in").set(f"k{number}", VALUE)
            before = psutil.Process(server.pid).memory_info().rss
            consume = channel.unary_stream("/env_api.v1.SubscriptionService/Consume")
            silent: list[Any] = []
            for name in names:
                request = pb.ConsumeRequest(name=name, consumer="silent")
                silent.append(consume(request.SerializeToString()))
                assigned = pb.ConsumeResponse.FromString(await silent[-1].read())
                assert assigned.WhichOneof("response") == "assignment"
            async with asyncio.timeout(60):
                for name in names:  # the deadline passes for each, whether or not its stream can be told
                    await wait_until_nobody_consumes(world.subscription(name))
            assert psutil.Process(server.pid).memory_info().rss - before < GROWTH_BYTES_MAX
            for name in names[:3]:
                await check_delivery(world, name)
            for call in silent:
                call.cancel()


async def wait_until_nobody_consumes(inbox: ecumene.Subscription) -> None:
    while (await inbox.describe()).consumers:  # noqa: ASYNC110 - a server is asked
        await asyncio.sleep(0.1)


async def check_delivery(world: ecumene.World, name: str) -> None:
    """Somebody who reads gets all of it."""
    inbox = world.subscription(name)
    keys: list[str] = []
    async with inbox.consume("reader") as deliveries, asyncio.timeout(30):
        async for delivery in deliveries:
            keys += [event.key for event in delivery]
            await deliveries.acknowledge(delivery)
            if len(keys) == VALUES:
                break
    assert keys == [f"k{number}" for number in range(VALUES)]
