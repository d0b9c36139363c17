"""`ecumene bench round`: a round of the demo's game, in which every agent thinks for one second and reports.

    setup    server, world, population, launch of the runtime until all agents listen
    round    request to open ──► wake, think, decide, validate, record, report ──► gate opened, received

At most a million think at a time; of more agents the others wait as rows, and follow as soon as somebody is done.

Beside it the lean sleepers: as many tasks that sleep as long and report to the lean engine, without an event that wakes
them, decisions, records or a gate. And other systems: see `round_peers`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecumene.bench.machine import describe_machine
from ecumene.bench.processes import READY_TIMEOUT_S, BenchError, list_tree, make_directory, run_child
from ecumene.bench.results import Goal, Report, Result, take_median
from ecumene.bench.round_peers import AGENTSCOPE_GOALS, REPORTED, RoundPeers
from ecumene.bench.usage import UsageMeter
from ecumene.client.model import EventFilter, EventType
from ecumene.client.world import World, connect
from ecumene.launch import Services
from ecumene.sim.populations.population import build_population
from ecumene.sim.runs.demo import make_demo_spec
from ecumene.sim.runs.launch import choose_workers, write_launch
from ecumene.sim.specs.game import GAME_KIND, GAME_PATH

AGENTS = 1_000_000
QUICK_AGENTS = 2_000
REPEATS = 3
COST_AGENTS_MIN = 100_000
"""Below it, tenths of the population are too small for their cost to be seen."""
THINK_S = 1.0
WAITING_MAX = 1_000_000
"""Agents that think at a time, in all workers together."""
SEED = 1
ROUND_TIMEOUT_S = 600.0
START_TIMEOUT_S = 300.0
MIB = 2**20

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RoundSample:
    """One round. `cpu_s`: of each part, from the request to open to the gate."""

    wall_s: float
    setup_s: float
    peak_bytes: int
    agents_ok: int
    cpu_s: dict[str, float]

    @property
    def total_cpu_s(self) -> float:
        """Of all parts together."""
        return sum(self.cpu_s.values())


async def bench_round(
    *, agents: int, with_limit: bool, with_cost: bool, with_peers: bool, is_quick: bool, note: Note
) -> Report:
    """Measure rounds of so many agents. `note` is told what is being done.

    Raises:
        BenchError: a part failed, took too long, or lost a report.
        LaunchError: a service did not start, or ended.
    """
    machine = await asyncio.to_thread(describe_machine)
    agents = min(agents, QUICK_AGENTS) if is_quick else agents
    samples: list[RoundSample] = []
    limits: list[RoundSample] = []
    peers = RoundPeers(agents, is_quick=is_quick)
    for repeat in range(1 if is_quick else REPEATS):
        note(f"{agents:,} agents, sample {repeat + 1}")
        samples.append(await play_round(agents))
        if with_limit:
            note(f"{agents:,} lean sleepers, sample {repeat + 1}")
            limits.append(await play_lean_round(agents))
        if with_peers:
            await peers.measure(note)
    results = [*summarise(agents, samples, limits), compare(agents, samples, peers)]
    if with_cost and agents >= COST_AGENTS_MIN:
        results.append(await measure_cost(agents, samples, note))
    return Report("round", machine, results, is_quick, REPORTED)


async def play_round(agents: int) -> RoundSample:
    """One round in services of its own."""
    async with AsyncExitStack() as stack:
        directory = await stack.enter_async_context(make_directory())
        services = await stack.enter_async_context(Services())
        start_s = time.perf_counter()
        arguments = ["--data-dir", str(directory / "world"), "--port", "0", "--log-level", "warning"]
        server = await services.start("env-server", arguments)
        address = str(server.ready["address"])
        launch = await asyncio.to_thread(describe_launch, agents, directory)
        world = await stack.enter_async_context(connect(address))
        await world.environment(GAME_PATH).register(kind=GAME_KIND, config={"ratio": 2 / 3})
        arguments = ["--server", address, "--spec", str(launch)]
        runtime = await services.start("runtime", arguments, start_timeout_s=START_TIMEOUT_S)
        setup_s = time.perf_counter() - start_s
        meter = UsageMeter({"server": [server.pid], "runtime": list_tree(runtime.pid)})
        async with meter, asyncio.timeout(ROUND_TIMEOUT_S):
            wall_s, cpu_s, closed = await conduct_round(world, agents, meter)
        if closed["reported"] != agents:
            raise BenchError(f"of {agents:,} agents {closed['reported']:,} reported a number")
        return RoundSample(wall_s, setup_s, meter.peak_bytes, closed["reported"], cpu_s)


async def conduct_round(world: World, agents: int, meter: UsageMeter) -> tuple[float, dict[str, float], dict[str, Any]]:
    """Open a round, wait for its gate, close it; seconds and CPU from the request to the gate, and the closing."""
    game = world.environment(GAME_PATH)
    gates = world.watch(EventFilter(path_prefix=GAME_PATH, types=(EventType.GATE_OPENED,)))
    # The opening's commit lies after this, so that the figure errs to the longer side.
    start_s = time.perf_counter()
    opened: Any = await game.invoke("open_round", participants=agents)
    async for event in gates:
        if isinstance(event.value, dict) and event.value.get("generation") == opened["generation"]:
            break
    wall_s = time.perf_counter() - start_s
    cpu_s = meter.cpu_s()
    await gates.aclose()
    closed: Any = await game.invoke("close_round", generation=opened["generation"])
    return wall_s, cpu_s, closed


def describe_launch(agents: int, directory: Path) -> Path:
    """The demo's population as a launch description, each agent with a second of thinking; returns its path."""
    spec = make_demo_spec(agents=agents, rounds=1, seed=SEED, directory=directory)
    population = build_population(spec.population, SEED)
    path = write_launch(spec, population, run="bench", directory=directory, workers=None)
    document = json.loads(path.read_text(encoding="utf-8"))
    share = min(1.0, WAITING_MAX / agents)
    for group in document["groups"]:
        group["thinking"] = {"kind": "fixed", "ms": THINK_S * 1000}
        # Each worker has a part of each group.
        part = population.counts[group["name"]] // document["workers"] + 1
        group["turns_in_flight_max"] = max(1, int(share * part))
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


async def play_lean_round(agents: int) -> RoundSample:
    """The same number of lean sleepers, in as many processes."""
    workers = choose_workers(agents)
    async with AsyncExitStack() as stack:
        directory = await stack.enter_async_context(make_directory())
        start_s = time.perf_counter()
        server = await stack.enter_async_context(run_child("ecumene.bench.limits.lean_server", [str(directory)]))
        address = (await server.read(READY_TIMEOUT_S))["address"]
        sleepers = []
        for index in range(workers):
            share = agents // workers + (index < agents % workers)
            arguments = [address, str(index), str(share), str(THINK_S)]
            sleepers.append(await stack.enter_async_context(run_child("ecumene.bench.limits.lean_sleepers", arguments)))
        for sleeper in sleepers:
            await sleeper.read(START_TIMEOUT_S)
        setup_s = time.perf_counter() - start_s
        async with UsageMeter({"server": [server.pid], "runtime": [one.pid for one in sleepers]}) as meter:
            start_s = time.perf_counter()
            for sleeper in sleepers:
                sleeper.go()
            done = sum([(await sleeper.read(ROUND_TIMEOUT_S))["done"] for sleeper in sleepers])
            wall_s = time.perf_counter() - start_s
            cpu_s = meter.cpu_s()
        if done != agents:
            raise BenchError(f"of {agents:,} lean sleepers {done:,} reported")
        return RoundSample(wall_s, setup_s, meter.peak_bytes, done, cpu_s)


def summarise(agents: int, samples: Sequence[RoundSample], limits: Sequence[RoundSample]) -> list[Result]:
    """The figures of a number of agents."""

    def read(take: Callable[[RoundSample], float]) -> tuple[float, float | None, list[float]]:
        values = [take(sample) for sample in samples]
        return take_median(values), take_median([take(one) for one in limits]) if limits else None, values

    details = {f"{role}_cpu_s": take_median([one.cpu_s[role] for one in samples]) for role in samples[0].cpu_s}
    details |= {f"limit_{role}_cpu_s": take_median([one.cpu_s[role] for one in limits]) for role in details_of(limits)}
    details["cpu_us_agent"] = take_median([1e6 * one.total_cpu_s / agents for one in samples])
    wall, wall_limit, walls = read(lambda one: one.wall_s)
    setup, _, setups = read(lambda one: one.setup_s)
    peak, peak_limit, peaks = read(lambda one: one.peak_bytes / MIB)
    ok, _, oks = read(lambda one: one.agents_ok)
    return [
        Result("wall_s", wall, "s", wall_limit, WALL_GOALS.get(agents), {}, walls, details),
        Result("setup_s", setup, "s", samples=setups),
        Result("peak_rss_mib", peak, "MiB", peak_limit, MEMORY_GOALS.get(agents), {}, peaks),
        Result("agents_ok", ok, "agents", goal=Goal(at_least=agents), samples=oks),
    ]


def compare(agents: int, samples: Sequence[RoundSample], peers: RoundPeers) -> Result:
    """Agents a second, beside those of other systems."""
    rates = [agents / sample.wall_s for sample in samples]
    goal = Goal(peers_at_least=AGENTSCOPE_GOALS) if agents in MEMORY_GOALS else None
    details = {f"{name}_rss_mib": mib for name, mib in peers.memory_mib.items()}
    return Result(
        "agents_s",
        take_median(rates),
        "agents/s",
        goal=goal,
        peers=peers.rates.medians(),
        samples=rates,
        details=details,
        absent_peers=peers.rates.absent,
    )


def details_of(limits: Sequence[RoundSample]) -> Sequence[str]:
    """The parts of a limit that was measured."""
    return tuple(limits[0].cpu_s) if limits else ()


WALL_GOALS = {100_000: Goal(at_most=4), 1_000_000: Goal(at_most=15), 10_000_000: Goal(at_most=180)}
MEMORY_GOALS = {1_000_000: Goal(at_most=4096), 10_000_000: Goal(at_most=16_384)}


async def measure_cost(agents: int, samples: Sequence[RoundSample], note: Note) -> Result:
    """What one more agent costs among many, over what it costs among a tenth of them."""
    whole = take_median([sample.total_cpu_s for sample in samples])
    smaller = []
    for count in (agents // 10, agents // 100):
        note(f"{count:,} agents, for the cost of one more")
        smaller.append(take_median([(await play_round(count)).total_cpu_s for _ in range(REPEATS)]))
    tenth, hundredth = smaller
    late = (whole - tenth) / (agents - agents // 10)
    early = (tenth - hundredth) / (agents // 10 - agents // 100)
    details = {"late_us_agent": 1e6 * late, "early_us_agent": 1e6 * early}
    return Result("cost_ratio", late / early, "1", goal=Goal(at_most=1.3), samples=[late / early], details=details)
