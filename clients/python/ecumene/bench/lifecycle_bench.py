"""`ecumene bench lifecycle`: agents launched on a node, stopped and cleaned up, and what is left of them.

launch    the description read ──► agents sent, kept in the world, checked, hosted ──► all own their place and watch
round     all agents wake, decide and report once: they are there
cleanup   stop asked ──► turns ended, cursors kept, parts given back, workers gone ──► all that was kept deleted
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ecumene.bench.machine import describe_machine
from ecumene.bench.processes import BenchError, list_tree, make_directory
from ecumene.bench.results import Goal, Report, Result, take_median
from ecumene.bench.round_bench import describe_launch
from ecumene.bench.targets import start_server
from ecumene.client.model import EventFilter, EventType
from ecumene.client.world import World, connect
from ecumene.launch import Services
from ecumene.launch.launch_files import read_launch
from ecumene.launch.node_runs import RUNS_PATH, clean_up_run, launch_run, stop_run
from ecumene.sim.specs.game import GAME_KIND, GAME_PATH

AGENTS = 1_000_000
QUICK_AGENTS = 2_000
REPEATS = 3
RUN = "bench"
TIMEOUT_S = 600.0
MIB = 2**20

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Life:
    """One life of so many agents. `left_over`: processes, leases and entries of the run that are there at the end."""

    launch_s: float
    cleanup_s: float
    round_s: float
    agents: int
    left_over: int
    left: Mapping[str, float]
    node_growth_mib: float


async def bench_lifecycle(*, agents: int, is_quick: bool, note: Note) -> Report:
    """Measure lives of so many agents. `note` is told what is being done.

    Raises:
        BenchError: a part failed, or an agent was lost.
        LaunchError: a service did not start, or ended.
    """
    machine = await asyncio.to_thread(describe_machine)
    agents = min(agents, QUICK_AGENTS) if is_quick else agents
    lives: list[Life] = []
    for repeat in range(1 if is_quick else REPEATS):
        note(f"a life of {agents:,} agents, sample {repeat + 1}")
        lives.append(await live(agents))
    return Report("lifecycle", machine, summarise(agents, lives), is_quick)


async def live(agents: int) -> Life:
    """One life, on a server and a node of its own."""
    async with AsyncExitStack() as stack:
        directory = await stack.enter_async_context(make_directory())
        services = await stack.enter_async_context(Services())
        server = await start_server(services, directory / "world")
        address = str(server.ready["address"])
        path = await asyncio.to_thread(describe_launch, agents, directory)
        arguments = ["--server", address, "--name", "bench", "--scratch", str(directory)]
        node = await services.start("runtime", arguments)
        world = await stack.enter_async_context(connect(address))
        await world.environment(GAME_PATH).register(kind=GAME_KIND, config={"ratio": 2 / 3})
        async with asyncio.timeout(TIMEOUT_S):
            return await measure_life(world, agents, path, node.pid)


async def measure_life(world: World, agents: int, path: Path, node_pid: int) -> Life:
    """Launch, one round, stop and clean up."""
    rss_before = psutil.Process(node_pid).memory_info().rss
    start_s = time.perf_counter()
    document, populations = await asyncio.to_thread(read_launch, path)
    launched = await launch_run(world, {**document, "run": RUN, "recording": None}, populations)
    launch_s = time.perf_counter() - start_s
    hosted = sum(one.agents for one in launched)
    if hosted != agents:
        raise BenchError(f"of {agents:,} agents {hosted:,} were launched")
    round_s = await play_round(world, agents)
    start_s = time.perf_counter()
    await stop_run(world, RUN)
    await clean_up_run(world, RUN)
    cleanup_s = time.perf_counter() - start_s
    left = await count_left(world, node_pid)
    growth = (psutil.Process(node_pid).memory_info().rss - rss_before) / MIB
    return Life(launch_s, cleanup_s, round_s, hosted, sum(map(int, left.values())), left, growth)


async def play_round(world: World, agents: int) -> float:
    """One round of the game; seconds until all have reported."""
    game = world.environment(GAME_PATH)
    start_s = time.perf_counter()
    async with world.watch(EventFilter(path_prefix=GAME_PATH, types=(EventType.GATE_OPENED,))) as gates:
        opened: Any = await game.invoke("open_round", participants=agents)
        await anext(aiter(gates))
    seconds = time.perf_counter() - start_s
    closed: Any = await game.invoke("close_round", generation=opened["generation"])
    if closed["reported"] != agents:
        raise BenchError(f"of {agents:,} agents {closed['reported']:,} reported a number")
    return seconds


async def count_left(world: World, node_pid: int) -> dict[str, float]:
    """What is left of a run: processes below the node, leases beside the node's own, environments of runs."""
    runs = [child async for child in world.environment(RUNS_PATH).children()]
    return {
        "processes": len(list_tree(node_pid)) - 1,
        "leases": len(await world.leases()) - 1,
        "runs": len(runs),
    }


def summarise(agents: int, lives: list[Life]) -> list[Result]:
    """The figures."""
    launches, cleanups = [one.launch_s for one in lives], [one.cleanup_s for one in lives]
    lefts = [float(one.left_over) for one in lives]
    hosted = [float(one.agents) for one in lives]
    goals = agents == AGENTS
    rounds = {"round_s": take_median([one.round_s for one in lives])}
    growth = {"node_growth_mib": take_median([one.node_growth_mib for one in lives])}
    return [
        Result(
            "launch_s",
            take_median(launches),
            "s",
            goal=Goal(at_most=15) if goals else None,
            samples=launches,
            details=rounds,
        ),
        Result(
            "cleanup_s",
            take_median(cleanups),
            "s",
            goal=Goal(at_most=10) if goals else None,
            samples=cleanups,
            details=growth,
        ),
        Result("left_over", max(lefts), "1", goal=Goal(at_most=0), samples=lefts, details=dict(lives[-1].left)),
        Result("agents", min(hosted), "agents", goal=Goal(at_least=agents), samples=hosted),
    ]
