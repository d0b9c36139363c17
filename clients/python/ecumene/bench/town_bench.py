"""`ecumene bench town`: a year of a small town whose clock waits for its residents, through server and runtime.

    clock jumps to a quarter of an hour ──► the part's timer ──► those who set out then: a block of moves ──► idle ──► …

A thousand residents by default, each with a routine of some wakes a day (agent_runtime/agents/town_dwellers.py): they
go to work, to lunch, home, out. Every wake is a turn that is recorded, and a move that is durable.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ecumene.bench.machine import describe_machine
from ecumene.bench.processes import BenchError, list_tree, make_directory
from ecumene.bench.results import Goal, Report, Result, take_median
from ecumene.bench.targets import start_server
from ecumene.bench.usage import UsageMeter
from ecumene.client import Clock, Grid, Participant, World, connect, ns
from ecumene.launch import Services

AGENT_CLASS = "agent_runtime.agents.town_dwellers:TownDwellers"
TOWN, STAFF, STREETS = "/town", "/town/staff", "/town/streets"
GROUP = "dwellers"
WIDTH = 128
"""Of the grid, wide enough for every place of a town of this size."""
RESIDENTS, DAYS, REPEATS = 1_000, 365, 3
QUICK_RESIDENTS, QUICK_DAYS = 60, 7
YEAR_S_MAX = 60.0
SEED = 1
TIMEOUT_S = 1_200.0
START_TIMEOUT_S = 120.0

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TownSample:
    """One run. `cpu_s`: of each part, from the clock's first jump to its last."""

    wall_s: float
    cpu_s: dict[str, float]
    peak_bytes: int
    jumps: int
    moves: int


async def bench_town(*, is_quick: bool, note: Note, workers: int = 1) -> Report:
    """Measure years. `note` is told what is being done.

    Raises:
        BenchError: it took too long, or nobody moved.
        LaunchError: a service did not start, or ended.
    """
    machine = await asyncio.to_thread(describe_machine)
    residents, days = (QUICK_RESIDENTS, QUICK_DAYS) if is_quick else (RESIDENTS, DAYS)
    samples = []
    for repeat in range(1 if is_quick else REPEATS):
        note(f"{days} days of {residents:,} residents, sample {repeat + 1}")
        samples.append(await live(residents, days, workers))
    return Report("town", machine, summarise(residents, days, samples), is_quick)


def summarise(residents: int, days: int, samples: list[TownSample]) -> list[Result]:
    """The wall time of it all, and the CPU of a day of one resident."""
    lived = residents * days
    cpu_us = [1e6 * sum(one.cpu_s.values()) / lived for one in samples]
    details = {
        "residents": residents,
        "days": days,
        "jumps": take_median([one.jumps for one in samples]),
        "moves": take_median([one.moves for one in samples]),
        "moves_a_resident_day": take_median([one.moves / lived for one in samples]),
        "wall_ms_a_jump": take_median([1e3 * one.wall_s / one.jumps for one in samples]),
        "peak_mib": take_median([one.peak_bytes / 2**20 for one in samples]),
    }
    parts = {f"{part}_us": take_median([1e6 * one.cpu_s[part] / lived for one in samples]) for part in samples[0].cpu_s}
    goal = Goal(at_most=YEAR_S_MAX) if (residents, days) == (RESIDENTS, DAYS) else None
    return [
        Result(
            "year_s",
            take_median([one.wall_s for one in samples]),
            "s",
            goal=goal,
            samples=[one.wall_s for one in samples],
            details=details,
        ),
        Result("resident_day_us", take_median(cpu_us), "µs", samples=cpu_us, details=parts),
    ]


async def live(residents: int, days: int, workers: int) -> TownSample:
    """One town, in services of its own."""
    async with AsyncExitStack() as stack:
        directory = await stack.enter_async_context(make_directory())
        services = await stack.enter_async_context(Services())
        server = await start_server(services, directory / "world")
        address = str(server.ready["address"])
        world = await stack.enter_async_context(connect(address))
        for path in (TOWN, STAFF):
            await world.environment(path).register()
        await world.environment(TOWN).change(clock=Clock.event_driven(participants_path=STAFF, paused=True))
        await world.environment(STREETS).register(space=Grid(WIDTH, WIDTH))
        launch = await asyncio.to_thread(describe_launch, residents, directory, workers)
        runtime = await services.start(
            "runtime", ["--server", address, "--spec", str(launch)], start_timeout_s=START_TIMEOUT_S
        )
        clock = world.environment(TOWN).clock()
        # Has nothing to do until the end, and keeps the clock there.
        director = await stack.enter_async_context(clock.participate("director", ttl_s=None, hears=[]))
        director.wake_at(days * ns(days=1))
        await clock.resume()
        meter = UsageMeter({"server": [server.pid], "runtime": list_tree(runtime.pid)})
        start_s = time.perf_counter()
        async with meter, asyncio.timeout(TIMEOUT_S):
            jumps = await count_jumps(director, days * ns(days=1))
        wall_s = time.perf_counter() - start_s
        cpu_s = meter.cpu_s()
        moves = await count_moves(world)
        if not moves:
            raise BenchError("nobody has moved")
        return TownSample(wall_s, cpu_s, meter.peak_bytes, jumps, moves)


async def count_jumps(director: Participant, end_ns: int) -> int:
    """How often the clock went on until the end."""
    jumps = 0
    async for batch in director:
        jumps += len(batch)
        if director.now_ns >= end_ns:
            return jumps
    raise BenchError("the clock has ended")


async def count_moves(world: World) -> int:
    """How often somebody went somewhere: value and place of an entry have a version each time."""
    return sum([entry.version async for entry in world.environment(STREETS).entries()]) // 2


def describe_launch(residents: int, directory: Path, workers: int) -> Path:
    """The launch description of the town's runtime; returns its path."""
    table = pa.table({"agent_id": [f"r-{number}" for number in range(residents)]})
    with pa.OSFile(str(directory / "residents.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    group = {
        "name": GROUP,
        "agent": AGENT_CLASS,
        "agents": "residents.arrow",
        "clock": TOWN,
        "first_wake_ns": 0,
        "parameters": {"path": STREETS, "residents": residents, "seed": SEED},
    }
    path = directory / "launch.json"
    document = {"run": "town", "workers": workers, "groups": [group]}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
