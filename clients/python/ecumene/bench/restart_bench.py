"""`ecumene bench restart`: how long a world takes to come back, and what its size costs the ops on it.

restart_s   start of the process → first read answered, after a kill: state tables loaded, the rest replayed
grow_ratio  ops/s at random over many entries, over ops/s over few; the limit is the lean engine's own ratio
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from ecumene.bench.env_bench import run_load
from ecumene.bench.load_case import ENVIRONMENT, LoadCase
from ecumene.bench.machine import describe_machine
from ecumene.bench.processes import BenchError, make_directory, read_cpu_s
from ecumene.bench.results import Goal, Report, Result, take_median
from ecumene.bench.targets import run_target, start_server
from ecumene.client.world import connect
from ecumene.launch import Services

REPEATS = 3
RESTART_TIMEOUT_S = 300.0
FRAME_OPS = 1000

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. The large world is filled once a target: that takes minutes."""

    repeats: int
    entries: int
    few: int
    many: int
    ops: int


FULL = Sizes(REPEATS, 1_000_000, 10_000, 10_000_000, 500_000)
QUICK = Sizes(1, 20_000, 1_000, 50_000, 10_000)


async def bench_restart(*, is_quick: bool, note: Note) -> Report:
    """Measure both. `note` is told what is being done.

    Raises:
        BenchError: a part failed or took too long, or an entry was lost.
        LaunchError: the server did not start.
    """
    machine = await asyncio.to_thread(describe_machine)
    sizes = QUICK if is_quick else FULL
    return Report("restart", machine, [await measure_restart(sizes, note), await measure_growth(sizes, note)], is_quick)


@dataclass(frozen=True, slots=True)
class Restart:
    """One start. `ready_s`: until it listens; `served_s`: until a client has its first answer."""

    ready_s: float
    served_s: float
    cpu_s: float


async def measure_restart(sizes: Sizes, note: Note) -> Result:
    """Starts after kills, and one after a clean stop each."""
    killed: list[Restart] = []
    stopped: list[Restart] = []
    for repeat in range(sizes.repeats):
        note(f"restart with {sizes.entries:,} entries, sample {repeat + 1}")
        async with make_directory() as directory, Services() as services:
            data = directory / "data"
            server = await start_server(services, data)
            load = LoadCase("frames", "server", str(server.ready["address"]), server.pid, sizes.entries, keys=0)
            filled = await run_load(load)
            if filled.done != sizes.entries:
                raise BenchError(f"of {sizes.entries:,} entries {filled.done:,} were written")
            await server.kill()
            killed.append(await restart(services, data, sizes.entries))
            await services.stop()
            stopped.append(await restart(services, data, sizes.entries))
    served = [one.served_s for one in killed]
    details = {
        "ready_s": take_median([one.ready_s for one in killed]),
        "cpu_s": take_median([one.cpu_s for one in killed]),
        "after_clean_stop_s": take_median([one.served_s for one in stopped]),
        "entries": sizes.entries,
    }
    return Result("restart_s", take_median(served), "s", goal=Goal(at_most=5), samples=served, details=details)


async def restart(services: Services, data: Path, entries: int) -> Restart:
    """Start over a directory and ask for the number of entries."""
    start_s = time.perf_counter()
    server = await start_server(services, data, start_timeout_s=RESTART_TIMEOUT_S)
    ready_s = time.perf_counter() - start_s
    async with connect(str(server.ready["address"])) as world:
        found = (await world.environment(ENVIRONMENT).describe()).entry_count
        served_s = time.perf_counter() - start_s
    if found != entries:
        raise BenchError(f"of {entries:,} entries {found:,} came back")
    return Restart(ready_s, served_s, read_cpu_s(server.pid))


async def measure_growth(sizes: Sizes, note: Note) -> Result:
    """Ops a second over many entries and over few, of the server and of the lean engine."""
    rates: dict[tuple[str, int], list[float]] = {}
    for count in (sizes.few, sizes.many):
        for target in ("server", "lean"):
            repeats = sizes.repeats if count == sizes.few else 1
            for repeat in range(repeats):
                note(f"{target} with {count:,} entries, sample {repeat + 1}")
                rates.setdefault((target, count), []).append(await measure_rate(target, count, sizes))
    median = {name: take_median(samples) for name, samples in rates.items()}
    ours, lean = (median[target, sizes.many] / median[target, sizes.few] for target in ("server", "lean"))
    details = {
        f"{target}_{name}_ops_s": median[target, count]
        for target in ("server", "lean")
        for name, count in (("few", sizes.few), ("many", sizes.many))
    }
    details |= {"few": sizes.few, "many": sizes.many, "ratio": ours, "lean_ratio": lean}
    return Result("grow_ratio", ours / lean, "1", goal=Goal(at_least=0.8), samples=[ours / lean], details=details)


async def measure_rate(target: str, entries: int, sizes: Sizes) -> float:
    """Ops a second at random over so many entries, which are there before."""
    async with AsyncExitStack() as stack:
        address, pid = await stack.enter_async_context(run_target(target))
        load = LoadCase("grown", target, address, pid, sizes.ops, sizes.ops // 10, FRAME_OPS, entries, at_random=True)
        result = await run_load(load)
        if result.done != result.ops:
            raise BenchError(f"{target} with {entries:,} entries: of {result.ops:,} ops {result.done:,} were done")
        return result.ops / result.wall_s
