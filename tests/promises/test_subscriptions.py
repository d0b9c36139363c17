"""P11 over a real network and disk: consumers that are killed, paused and replaced, and a server that is killed too.

Every event has its effects exactly once, and those of one key in their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import ecumene
import pytest
from ecumene import EventFilter, Subscription, World
from ecumene.client import ClientSettings

from tests.services import ROOT, ServerProcess

SETTINGS = ClientSettings(backoff_first_ms=10, backoff_ms_max=200, reconnect_timeout_s=60)
KEYS = 20
OUTSTANDING_MAX = 15
EVENTS_BETWEEN_FAULTS = 80
WINDOW = 10
BACKLOG_REVISIONS_MAX = 500


class Consumers:
    """Processes that consume, by name."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._processes: dict[str, Process] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self.handled = 0
        """Events of which some consumer learnt that their effects are there."""
        self.progress = asyncio.Event()

    @property
    def names(self) -> list[str]:
        """Of the living."""
        return sorted(self._processes)

    async def start(self, name: str) -> None:
        """Starts one."""
        arguments = ["-m", "tests.promises.consumer_child", self._address, "inbox", name, str(OUTSTANDING_MAX)]
        process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE, cwd=ROOT)
        self._processes[name] = process
        self._readers[name] = asyncio.create_task(self._read(process), name=f"reads from {name}")

    async def kill(self, name: str) -> None:
        """SIGKILL; returns when it is gone."""
        process = self._processes.pop(name)
        assert process.returncode is None, f"consumer {name} ended by itself"
        process.kill()
        await process.wait()
        await self._readers.pop(name)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Any other signal."""
        self._processes[name].send_signal(number)

    async def kill_all(self) -> None:
        """The end."""
        for name in self.names:
            await self.kill(name)

    async def wait_for(self, handled: int) -> None:
        """Returns when so many more have been handled."""
        wanted = self.handled + handled
        async with asyncio.timeout(60):
            while self.handled < wanted:
                self.progress.clear()
                await self.progress.wait()

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.handled += int(line)
            self.progress.set()


class Writer:
    """Writes events of a few keys, a window of them in flight, and not far ahead of the consumers."""

    def __init__(self, world: World, inbox: Subscription, chance: random.Random) -> None:
        self._world = world
        self._inbox = inbox
        self._place = world.environment("/in")
        self._chance = chance
        self.revisions: dict[str, list[int]] = {f"k{number}": [] for number in range(KEYS)}
        self.stopped = False

    async def run(self) -> None:
        """Until it is stopped."""
        while not self.stopped:
            keys = [f"k{self._chance.randrange(KEYS)}" for _ in range(WINDOW)]
            written = await asyncio.gather(*[self._place.increment(key, 1) for key in keys])
            for key, one in zip(keys, written, strict=True):
                self.revisions[key].append(one.revision)
            await asyncio.sleep(0.01)  # so that faults hit consumers that work, not a backlog alone
            await until(self._is_nearly_consumed)

    async def _is_nearly_consumed(self) -> bool:
        return self._world.revision - (await self._inbox.describe()).cursor < BACKLOG_REVISIONS_MAX


@contextlib.asynccontextmanager
async def running(directory: Path, **asked: int) -> AsyncIterator[tuple[ServerProcess, World, Subscription, Consumers]]:
    """A server, a world with a subscription on /in, and no consumer yet."""
    with ServerProcess(directory) as server:
        async with ecumene.connect(server.address, settings=SETTINGS) as world:
            await world.environment("/in").register()
            await world.environment("/out").register()
            inbox = world.subscription("inbox")
            await inbox.create(EventFilter(path_prefix="/in"), **asked)
            consumers = Consumers(server.address)
            try:
                yield server, world, inbox, consumers
            finally:
                await consumers.kill_all()


async def check_effects(world: World, inbox: Subscription, writer: Writer) -> None:
    """Waits until all is acknowledged; then every event has its effects once, those of a key in their order."""
    last = max(revisions[-1] for revisions in writer.revisions.values() if revisions)
    async with asyncio.timeout(60):
        await until(lambda: is_done(world, writer))
        await until(lambda: holds_nothing(inbox))
    for key, revisions in writer.revisions.items():
        if not revisions:
            continue
        assert await world.environment("/out").value(key) == len(revisions)
        log = await world.environment("/out").read_stream(f"log-{key}", limit=10_000)
        assert [item.value for item in log.items] == sorted(revisions), key
    assert [one.name for one in await world.subscriptions()] == ["inbox"]
    assert last <= world.revision


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Returns once it holds; the caller bounds the time."""
    while not await condition():  # noqa: ASYNC110 - a server is asked
        await asyncio.sleep(0.05)


async def has_consumers(inbox: Subscription, count: int) -> bool:
    """Whether so many are attached."""
    return len((await inbox.describe()).consumers) == count


async def holds_nothing(inbox: Subscription) -> bool:
    """Whether everything that was delivered is acknowledged."""
    return not any(one.outstanding_events for one in (await inbox.describe()).consumers)


async def is_done(world: World, writer: Writer) -> bool:
    """Whether as many effects are there as there were events (or more, which fails later)."""
    counts = {entry.key: entry.value async for entry in world.environment("/out").entries(prefix="k")}
    return sum(int(str(count)) for count in counts.values()) >= sum(map(len, writer.revisions.values()))


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("partitions", "faults"),
    [(1, 5), (16, 5), pytest.param(1, 60, marks=pytest.mark.long), pytest.param(64, 120, marks=pytest.mark.long)],
)
async def test_effects_are_exactly_once_over_kills_of_consumers_and_server(
    tmp_path: Path, seed: int, partitions: int, faults: int
) -> None:
    chance = random.Random(seed)
    async with running(tmp_path / "data", partitions=partitions, ack_timeout_ms=2000) as (
        server,
        world,
        inbox,
        consumers,
    ):
        names = ["c0", "c1", "c2"] if partitions > 1 else ["c0"]
        for name in names:
            await consumers.start(name)
        writer = Writer(world, inbox, chance)
        writing = asyncio.create_task(writer.run(), name="writer")
        try:
            for number in range(faults):
                await consumers.wait_for(EVENTS_BETWEEN_FAULTS)
                await asyncio.sleep(chance.uniform(0, 0.05))  # the moment of the fault
                if number % 3 == 2:
                    server.kill()
                    await asyncio.to_thread(server.start)
                else:
                    name = chance.choice(names)
                    await consumers.kill(name)
                    await consumers.start(name)
            await consumers.wait_for(EVENTS_BETWEEN_FAULTS)
            writer.stopped = True
            await writing
            await check_effects(world, inbox, writer)
            async with asyncio.timeout(30):  # one that was started last may still be on its way
                await until(lambda: has_consumers(inbox, len(names)))
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)


@pytest.mark.timeout(300)
async def test_what_a_paused_consumer_holds_goes_to_the_others_and_its_own_late_work_is_fenced(
    tmp_path: Path, seed: int
) -> None:
    """A process that stands still keeps its connection: only the deadline tells. Awake again, it doubles no effect."""
    async with running(tmp_path / "data", partitions=8, ack_timeout_ms=1000) as (_, world, inbox, consumers):
        writer = Writer(world, inbox, random.Random(seed))
        writing = asyncio.create_task(writer.run(), name="writer")
        try:
            for name in ("c0", "c1"):
                await consumers.start(name)
            await consumers.wait_for(50)
            for _ in range(2):
                consumers.signal("c0", signal.SIGSTOP)
                async with asyncio.timeout(20):
                    await until(lambda: has_consumers(inbox, 1))
                await consumers.wait_for(100)
                consumers.signal("c0", signal.SIGCONT)
                async with asyncio.timeout(20):
                    await until(lambda: has_consumers(inbox, 2))
                await consumers.wait_for(100)
            writer.stopped = True
            await writing
            await check_effects(world, inbox, writer)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
