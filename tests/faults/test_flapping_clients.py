"""Crowds of clients that come, break and come back: consumers and connections stay bounded, nobody comes in step.

Case 12 and the thundering reconnect.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import random
from pathlib import Path

import ecumene
import psutil
import pytest
from ecumene import ClientSettings, EventFilter, World

from tests.services import ServerProcess
from tests.tcp_proxy import TcpProxy

CLIENTS = 100
CLIENTS_LONG = 2000
CONSUMERS = 16
BACKOFF_MS_MAX = 1000
SETTINGS = ClientSettings(
    backoff_first_ms=100, backoff_ms_max=BACKOFF_MS_MAX, attempt_timeout_s=60, reconnect_timeout_s=300
)
RSS_GROWTH_MIB_MAX = 60


class Crowd:
    """Clients, each with a watch, and some that share a subscription."""

    def __init__(self, worlds: list[World]) -> None:
        self.worlds = worlds
        self.watches = [world.watch(EventFilter(key_glob="bell")) for world in worlds]
        self.tasks: list[asyncio.Task[None]] = []
        self.consumed: collections.Counter[str] = collections.Counter()

    @classmethod
    async def gather(cls, address: str, count: int, chance: random.Random) -> Crowd:
        """Connect them, a hundred at a time."""
        worlds: list[World] = []
        while len(worlds) < count:
            more = range(min(100, count - len(worlds)))
            worlds += await asyncio.gather(*[connect(address, random.Random(chance.random())) for _ in more])
        return cls(worlds)

    def consume(self) -> None:
        """Let some consume a subscription, over everything."""
        self.tasks = [
            asyncio.create_task(self._consume(world, f"c{number}"), name=f"consumer {number}")
            for number, world in enumerate(self.worlds[:CONSUMERS])
        ]

    async def hear(self, bell: int) -> None:
        """Everybody hears of one change, once and in order."""
        for watch in self.watches:
            assert (await anext(watch)).value == bell

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await asyncio.gather(*[world.close() for world in self.worlds])

    async def _consume(self, world: World, name: str) -> None:
        async with world.subscription("crowd").consume(name) as deliveries:
            async for delivery in deliveries:
                try:
                    await deliveries.acknowledge(delivery)
                except ecumene.FencedError:
                    continue  # it flapped meanwhile: they come again
                self.consumed.update(event.key for event in delivery)


async def connect(address: str, chance: random.Random) -> World:
    return await ecumene.connect(address, settings=SETTINGS, chance=chance, timeout_s=120)


async def flap(proxy: TcpProxy, crowd: Crowd, bells: range, direct: World, chance: random.Random) -> None:
    """Break every connection, again and again, also before all are back; each time everybody catches up."""
    for bell in bells:
        for _ in range(chance.randrange(1, 4)):
            proxy.cut()
            await asyncio.sleep(chance.uniform(0, 0.3))
        await direct.environment("/").set("bell", bell)
        await direct.environment("/work").set(f"job-{bell}", bell)
        await crowd.hear(bell)


class Waits(logging.Handler):
    """Collects how long sessions wait before their next attempt: what a busy machine does to it does not count."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.waits_s: list[float] = []
        self._logger = logging.getLogger("ecumene.client")
        self._level = self._logger.level

    def __enter__(self) -> Waits:
        self._logger.addHandler(self)
        self._logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("session ") and isinstance(record.args, tuple):
            wait_s = record.args[-1]
            assert isinstance(wait_s, float)
            self.waits_s.append(wait_s)


async def count_attempts(proxy: TcpProxy, clients: int) -> None:
    """During an outage clients come back seldom, and each at moments of its own."""
    outage_s = 4 + clients / 100  # a crowd in one process needs a while to notice
    proxy.refuses = True
    proxy.attempts_at.clear()
    with Waits() as waits:
        proxy.cut()
        await asyncio.sleep(outage_s)
    proxy.refuses = False
    # With full jitter the mean waits are 50, 100, 200, 400 and then 500 ms: two attempts a second.
    assert clients < len(proxy.attempts_at) < clients * (6 + 3 * outage_s), "they try, and it is no storm"
    slots = collections.Counter(int(wait_s * 100) for wait_s in waits.waits_s)
    assert len(waits.waits_s) > clients
    assert max(slots.values()) < len(waits.waits_s) / 4, f"in step: {slots}"
    assert max(waits.waits_s) > 0.3, "the waits grow"


async def run_crowd(tmp_path: Path, clients: int, rounds: int, chance: random.Random) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with (
            TcpProxy(server.address) as proxy,
            ecumene.connect(server.address) as direct,
        ):
            await direct.environment("/work").register()
            inbox = direct.subscription("crowd")
            await inbox.create(EventFilter(path_prefix="/work"), partitions=64, ack_timeout_ms=60_000)
            crowd = await Crowd.gather(proxy.address, clients, chance)
            try:
                crowd.consume()
                await flap(proxy, crowd, range(1, 2), direct, chance)
                process = psutil.Process(server.pid)
                rss_before = process.memory_info().rss
                await flap(proxy, crowd, range(2, rounds + 2), direct, chance)
                await count_attempts(proxy, clients)
                await direct.environment("/").set("bell", -1)
                await crowd.hear(-1)
                grown_mib = (process.memory_info().rss - rss_before) / 2**20
                assert grown_mib < RSS_GROWTH_MIB_MAX * clients / 100
                await check_bounds(proxy, crowd, inbox, rounds + 1)
            finally:
                await crowd.close()


async def check_bounds(proxy: TcpProxy, crowd: Crowd, inbox: ecumene.Subscription, jobs: int) -> None:
    """One connection a session and one for each that calls outside it; one consumer a name; every job was done."""
    async with asyncio.timeout(60):
        while (  # noqa: ASYNC110 - it happens in another process
            len(crowd.consumed) < jobs
            or len((await inbox.describe()).consumers) != CONSUMERS
            or proxy.connections > len(crowd.worlds) + CONSUMERS
        ):
            await asyncio.sleep(0.05)
    names = [consumer.name for consumer in (await inbox.describe()).consumers]
    assert sorted(names) == sorted(f"c{number}" for number in range(CONSUMERS))
    assert set(crowd.consumed) == {f"job-{number}" for number in range(1, jobs + 1)}


@pytest.mark.timeout(240)
async def test_a_crowd_that_flaps_leaves_nothing_behind_and_never_comes_in_step(tmp_path: Path, seed: int) -> None:
    await run_crowd(tmp_path, CLIENTS, 4, random.Random(seed))


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_two_thousand_clients_flap(tmp_path: Path, seed: int) -> None:
    await run_crowd(tmp_path, CLIENTS_LONG, 3, random.Random(seed))
