"""Workflows at their size: a crowd of read-modify-writes, deep chains and wide fan-ins, the rate of calls."""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable, Iterator

import pytest
from ecumene import connect, workflows

from agent_runtime.programs.usage import read_rss_anon
from tests.services import ServerProcess
from tests.workflow_actors import Counter, Teller
from tests.workflow_hosts import HostChild, two_hosts

MB = 1e6


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, list[HostChild]]]:
    """A real server, and two host processes."""
    # On a machine that others use a busy host may be late with its lease.
    with two_hosts(tmp_path_factory.mktemp("workflows"), lease_ttl_s=15.0) as both:
        yield both


@pytest.fixture(scope="module")
def server(both: tuple[ServerProcess, list[HostChild]]) -> ServerProcess:
    """The server."""
    return both[0]


@pytest.fixture(scope="module")
def hosts(both: tuple[ServerProcess, list[HostChild]]) -> list[HostChild]:
    """The hosts."""
    return both[1]


async def write_800(address: str, counters: int) -> float:
    """Let so many actors do 800 read-modify-writes together; returns the seconds."""
    async with connect(address) as world:
        place = world.environment("/counts")
        await place.register(if_absent=True)
        await place.set("n", 0)
        async with workflows.connect(address) as flow:
            actors = flow.spawn(Counter, counters, retry=10_000)
            await workflows.gather([actor.increment("/counts", "made") for actor in actors])
            begun = time.monotonic()
            calls = [actor.read_modify_write("/counts", "n") for _ in range(800 // counters) for actor in actors]
            results = await workflows.gather(calls)
            took_s = time.monotonic() - begun
        assert await place.value("n") == 800
        assert sorted(results) == list(range(1, 801))
    return took_s


async def test_800_read_modify_writes_of_one_entry_give_800(server: ServerProcess, hosts: list[HostChild]) -> None:
    await write_800(server.address, 16)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_800_actors_that_read_modify_and_write_one_entry_at_once_give_800(
    server: ServerProcess, hosts: list[HostChild]
) -> None:
    took_s = await write_800(server.address, 800)
    print(f"800 read-modify-writes of 800 actors at once: {took_s:.1f} s")


def play_chain_and_fan_in(chance: random.Random) -> Callable[[], None]:
    """A chain of 1,000 placeholders and a fan-in of 10,000 over four actors."""
    tellers = workflows.spawn(Teller, 4)

    def work() -> None:
        value = tellers[0].add(0)
        for _ in range(1000):
            value = chance.choice(tellers).add(value, 1)
        assert value.get(timeout_s=240) == 1000
        wide = [chance.choice(tellers).add(number) for number in range(10_000)]
        assert tellers[0].total(wide).get(timeout_s=240) == sum(range(10_000))

    return work


def measure_rounds(
    server: ServerProcess, hosts: list[HostChild], chance: random.Random, rounds: int
) -> tuple[int, int]:
    """Play so many rounds after a first one; returns the bytes that server, and hosts and script, grew by."""
    # Memory of their own: pages of the world's files that the server has mapped are the system's.
    pids = [server.pid, *(host.process.pid for host in hosts), os.getpid()]
    with workflows.connect(server.address) as flow:
        work = play_chain_and_fan_in(chance)
        work()
        gc.collect()
        before = [read_rss_anon(pid) for pid in pids]
        begun = time.monotonic()
        for _ in range(rounds):
            work()
        took_s = time.monotonic() - begun
        gc.collect()
        server_grown, *grown = (read_rss_anon(pid) - rss for pid, rss in zip(pids, before, strict=True))
        deadline = time.monotonic() + 10
        while flow.statistics().results > 10:
            assert time.monotonic() < deadline, "results are kept that nobody refers to"
            time.sleep(0.05)
    print(
        f"{rounds} times a chain of 1,000 and a fan-in of 10,000: {took_s:.1f} s; hosts and script grew by "
        f"{sum(grown) / MB:.1f} MB, the server by {server_grown / MB:.1f} MB"
    )
    return server_grown, sum(grown)


@pytest.mark.timeout(300)
def test_deep_chains_and_wide_fan_ins_finish_with_flat_memory(
    server: ServerProcess, hosts: list[HostChild], seed: int
) -> None:
    server_grown, grown = measure_rounds(server, hosts, random.Random(seed), 1)
    assert grown < 20 * MB
    # The server keeps recent events in a ring, 16 MiB as encoded and more as it is held, which fills meanwhile.
    assert server_grown < 100 * MB


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_memory_stays_flat_over_many_deep_chains_and_wide_fan_ins(
    server: ServerProcess, hosts: list[HostChild], seed: int
) -> None:
    filled, _ = measure_rounds(server, hosts, random.Random(seed), 4)  # pools, and much of the server's ring
    server_grown, grown = measure_rounds(server, hosts, random.Random(seed + 1), 8)
    assert grown < 20 * MB, "over 88,000 calls"
    assert filled + server_grown < 100 * MB, "the ring of recent events, and no more"
