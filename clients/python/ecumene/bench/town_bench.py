"""`ecumene bench town`: a year of a small town whose clock waits for its residents, through server and runtime.

    clock jumps to a half hour ──► the part's timer ──► those who set out then: a block of moves ──► idle ──► …

A thousand residents by default, each with a routine of some wakes a day (agent_runtime/agents/town_dwellers.py): they
go to work, to lunch, home, out; nobody talks. Every wake is a turn that is recorded, and a move that is durable. Of
every run it is checked that each resident has moved as often as its days' plans say and is at home in the end, and that
the clock has stopped at each time at which somebody sets out, and nowhere else. The clock waits for the residents
alone: one above it, which stands, keeps it from going on after the last day.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from ecumene.bench.machine import describe_machine
from ecumene.bench.processes import BenchError, list_tree, make_directory
from ecumene.bench.results import Goal, Report, Result, take_median
from ecumene.bench.targets import start_server
from ecumene.bench.usage import UsageMeter
from ecumene.client import Clock, Entry, EventFilter, EventType, Grid, World, connect, ns
from ecumene.launch import Services

AGENTS = "agent_runtime.agents.town_dwellers"
AGENT_CLASS = f"{AGENTS}:TownDwellers"
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


@dataclass(frozen=True, slots=True)
class TownPlan:
    """What a run has to come to, as the days' plans say."""

    moves: dict[str, int]
    """Of each resident."""
    homes: dict[str, tuple[float, ...]]
    """Where each is in the end."""
    times: int
    """At how many times somebody sets out."""


async def bench_town(*, is_quick: bool, note: Note, workers: int = 1) -> Report:
    """Measure years. `note` is told what is being done.

    Raises:
        BenchError: it took too long, or what happened is not what the days' plans say.
        LaunchError: a service did not start, or ended.
    """
    machine = await asyncio.to_thread(describe_machine)
    residents, days = (QUICK_RESIDENTS, QUICK_DAYS) if is_quick else (RESIDENTS, DAYS)
    samples = []
    plan = await asyncio.to_thread(plan_town, residents, days)
    for repeat in range(1 if is_quick else REPEATS):
        note(f"{days} days of {residents:,} residents, sample {repeat + 1}")
        samples.append(await live(residents, days, workers, plan))
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
        "conversations": 0,
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


async def live(residents: int, days: int, workers: int, plan: TownPlan) -> TownSample:
    """One town, in services of its own. Raises BenchError: it has not gone as planned."""
    async with AsyncExitStack() as stack:
        directory = await stack.enter_async_context(make_directory())
        services = await stack.enter_async_context(Services())
        server = await start_server(services, directory / "world")
        address = str(server.ready["address"])
        world = await stack.enter_async_context(connect(address))
        for path in (TOWN, STAFF):
            await world.environment(path).register()
        end_ns = days * ns(days=1)
        await world.environment("/").change(clock=Clock.manual())
        await world.environment(TOWN).change(
            clock=Clock.event_driven(participants_path=STAFF, paused=True, lookahead_ns=end_ns)
        )
        after = (await world.environment(TOWN).set_timer("end", at_ns=end_ns)).revision
        await world.environment(STREETS).register(space=Grid(WIDTH, WIDTH))
        launch = await asyncio.to_thread(describe_launch, residents, directory, workers)
        runtime = await services.start(
            "runtime", ["--server", address, "--spec", str(launch)], start_timeout_s=START_TIMEOUT_S
        )
        clock = world.environment(TOWN).clock()
        await clock.resume()
        meter = UsageMeter({"server": [server.pid], "runtime": list_tree(runtime.pid)})
        start_s = time.perf_counter()
        async with meter, asyncio.timeout(TIMEOUT_S):
            jumps = await count_jumps(world, after, end_ns)
        wall_s = time.perf_counter() - start_s
        cpu_s = meter.cpu_s()
        entries = [entry async for entry in world.environment(STREETS).entries()]
        check_town(plan, entries, jumps)
        return TownSample(wall_s, cpu_s, meter.peak_bytes, jumps, sum(map(count_moves, entries)))


async def count_jumps(world: World, after: int, end_ns: int) -> int:
    """How often the clock goes on behind a revision, until the end."""
    jumps = 0
    changes = EventFilter(path_glob=TOWN, types=(EventType.CLOCK_CHANGED,))
    async for event in world.watch(changes, from_revision=after + 1):
        jumps += event.sim_time_ns != 0  # where it was let go
        if event.sim_time_ns == end_ns:
            return jumps
    raise BenchError("the clock has ended")


def count_moves(entry: Entry) -> int:
    """How often a resident went somewhere: its value and its place have a version each time."""
    return entry.version // 2


def plan_town(residents: int, days: int) -> TownPlan:
    """What the routines say, asked for without any of the services."""
    module: Any = import_module(AGENTS)
    routines = module.Routines(module.TownParameters(**describe_town(residents)))
    moves, homes, times = {}, {}, set[int]()
    for name in list_residents(residents):
        stops = [stop for day in range(days) for stop in routines.list_stops(name, day)]
        moves[name] = len(stops)
        homes[name] = tuple(map(float, routines.find_home(name)))
        times.update(stop.at_ns for stop in stops)
    return TownPlan(moves, homes, len(times))


def check_town(plan: TownPlan, entries: list[Entry], jumps: int) -> None:
    """Raises BenchError: somebody has not moved as planned, or the clock has not gone from plan to plan to the end."""
    moves = {entry.key: count_moves(entry) for entry in entries}
    wanted = {name: count for name, count in plan.moves.items() if count}
    if moves != wanted:
        wrong = sorted(name for name in moves.keys() | wanted.keys() if moves.get(name) != wanted.get(name))
        first = f"{wrong[0]} {moves.get(wrong[0], 0)} times of {wanted.get(wrong[0], 0)}"
        raise BenchError(f"{len(wrong)} residents have not moved as often as planned: {first}")
    away = [entry.key for entry in entries if tuple(map(float, entry.position)) != plan.homes[entry.key]]
    if away:
        raise BenchError(f"{len(away)} residents are not at home in the end: {away[0]}")
    if jumps != plan.times + 1:  # and to the end
        raise BenchError(f"the clock went on {jumps} times, {plan.times + 1} were planned")


def list_residents(residents: int) -> list[str]:
    """Their ids."""
    return [f"r-{number}" for number in range(residents)]


def describe_town(residents: int) -> dict[str, Any]:
    """What the residents are told."""
    return {"path": STREETS, "residents": residents, "seed": SEED}


def describe_launch(residents: int, directory: Path, workers: int) -> Path:
    """The launch description of the town's runtime; returns its path."""
    table = pa.table({"agent_id": list_residents(residents)})
    with pa.OSFile(str(directory / "residents.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    group = {
        "name": GROUP,
        "agent": AGENT_CLASS,
        "agents": "residents.arrow",
        "clock": TOWN,
        "first_wake_ns": 0,
        "parameters": describe_town(residents),
    }
    path = directory / "launch.json"
    document = {"run": "town", "workers": workers, "groups": [group]}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
