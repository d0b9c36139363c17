"""`ecumene bench clock`: what simulated time costs, beside a bare heap and asyncio's own alarms.

fire_us      server CPU of a firing while a manual clock is advanced over all of them; each is a revision on the disk
late_ms      how long behind its time a firing of a realtime clock is heard by a watch: the median
timer_bytes  memory of the server for a timer that waits
jumps_1      jumps a second of an event-driven clock, each heard by its participant before the next; jumps_100: by all
clock_ratio  server CPU of an op in a world that lives by a clock, over that of one without
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from ecumene.bench.clock_load import ClockCase
from ecumene.bench.env_bench import run_load
from ecumene.bench.load_case import LoadCase
from ecumene.bench.machine import describe_machine
from ecumene.bench.processes import BenchError, run_child
from ecumene.bench.results import Goal, Report, Result, take_median
from ecumene.bench.targets import run_target

LOAD_MODULE = "ecumene.bench.clock_load"
LIMIT_MODULE = "ecumene.bench.limits.bare_timers"
WORK_TIMEOUT_S = 600.0
CLOCK_RATIO_MAX = 1.1

Note = Callable[[str], None]
Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    repeats: int
    timers: int
    firings: int
    waiting: int
    late_firings: int
    jumps: int
    crowd: int
    ops: int
    ratio_repeats: int


FULL = Sizes(3, 1_000, 1_000_000, 90_000, 5_000, 5_000, 100, 500_000, 5)
QUICK = Sizes(1, 50, 2_000, 4_000, 60, 50, 5, 10_000, 1)


async def bench_clock(*, is_quick: bool, note: Note) -> Report:
    """Measure all figures. `note` is told what is being done.

    Raises:
        BenchError: a part failed or took too long, or a firing was lost.
        LaunchError: the server did not start.
    """
    machine = await asyncio.to_thread(describe_machine)
    sizes = QUICK if is_quick else FULL
    fired = await measure_role(ClockCase("fire", "", 0, "manual", sizes.timers, sizes.firings), sizes.repeats, note)
    waited = await measure_role(ClockCase("wait", "", 0, "manual", sizes.waiting), sizes.repeats, note)
    heard = await measure_role(
        ClockCase("late", "", 0, "realtime", sizes.timers, sizes.late_firings), sizes.repeats, note
    )
    results = [
        summarise("fire_us", "µs", "fire_us", "bare_heap", fired, {"set_us": "set_us", "wall_us_op": "wall_us"}),
        summarise("late_ms", "ms", "p50_ms", "asyncio_alarms", heard, {"p99_ms": "p99_ms", "server_us_op": "fire_us"}),
        summarise("timer_bytes", "bytes", "bytes", "bare_heap", waited, {"set_us": "set_us"}),
    ]
    results += await measure_jumps(sizes, note)
    results += await measure_ratios(sizes, note)
    return Report("clock", machine, results, is_quick)


Pairs = Sequence[tuple[Figures, Figures]]
"""Samples of ours, each with that of the limit."""


async def measure_role(case: ClockCase, repeats: int, note: Note) -> Pairs:
    """Ours and the bare limit, in turn."""
    pairs = []
    for repeat in range(repeats):
        note(f"timers: {case.role}, sample {repeat + 1}")
        async with run_target("server") as (address, pid):
            ours = await run_case(replace(case, address=address, server_pid=pid))
        async with run_child(LIMIT_MODULE, [case.role, str(case.timers), str(case.firings)]) as child:
            pairs.append((ours, await child.read(WORK_TIMEOUT_S)))
    return pairs


async def measure_jumps(sizes: Sizes, note: Note) -> list[Result]:
    """Jumps of an event-driven clock a second: with one participant, and with many."""
    results = []
    for crowd, jumps in ((1, sizes.jumps), (sizes.crowd, max(1, sizes.jumps // 10))):
        samples: list[Figures] = []
        for repeat in range(sizes.repeats):
            note(f"jumps before {crowd} participants, sample {repeat + 1}")
            async with run_target("server") as (address, pid):
                case = ClockCase("jump", address, pid, "event_driven", firings=jumps, participants=crowd)
                samples.append(await run_case(case))
        details = {name: take_median([one[name] for one in samples]) for name in ("server_us_op", "client_us_op")}
        rates = [one["jumps_s"] for one in samples]
        results.append(Result(f"jumps_{crowd}", take_median(rates), "jumps/s", samples=rates, details=details))
    return results


async def run_case(case: ClockCase) -> Figures:
    """One sample, in a process of its own."""
    async with run_child(LOAD_MODULE, [json.dumps(asdict(case))]) as child:
        return await child.read(WORK_TIMEOUT_S)


async def measure_ratios(sizes: Sizes, note: Note) -> list[Result]:
    """Ops as of `ops_1k_keys`, without a clock, with one that stands, and with one that goes, in turn."""
    cost: dict[str, list[float]] = {"": [], "manual": [], "realtime": []}
    for repeat in range(sizes.ratio_repeats):
        note(f"ops beside clocks, sample {repeat + 1}")
        for mode, samples in cost.items():
            samples.append(await measure_ops(mode, sizes.ops))
    results = []
    for mode in ("manual", "realtime"):
        ratios = [beside / without for beside, without in zip(cost[mode], cost[""], strict=True)]
        details = {"server_us_op": take_median(cost[mode]), "without_us_op": take_median(cost[""])}
        goal = Goal(at_most=CLOCK_RATIO_MAX)
        results.append(
            Result(f"clock_ratio_{mode}", take_median(ratios), "1", goal=goal, samples=ratios, details=details)
        )
    return results


async def measure_ops(mode: str, ops: int) -> float:
    """Server CPU of an op in µs; `mode` "" = without a clock."""
    async with run_target("server") as (address, pid):
        if mode:
            await run_case(ClockCase("declare", address, pid, mode))
        result = await run_load(LoadCase("frames", "server", address, pid, ops, ops // 10))
        if result.done != result.ops:
            raise BenchError(f"of {result.ops:,} ops {result.done:,} were done")
        return 1e6 * result.server_cpu_s / result.ops


def summarise(name: str, unit: str, field: str, beside: str, pairs: Pairs, details: Mapping[str, str]) -> Result:
    """One figure beside the bare one; `details` maps names to fields."""
    samples = [ours[field] for ours, _ in pairs]
    limits = [limit[field] for _, limit in pairs]
    told = {key: take_median([ours[of] for ours, _ in pairs]) for key, of in details.items()}
    told |= {
        f"{beside}_{key}": take_median([limit[of] for _, limit in pairs])
        for key, of in details.items()
        if of in pairs[0][1]
    }
    bare = take_median(limits)
    told[f"{beside}_{field}"] = bare
    # An alarm of a loop that rounds its time may come a little early.
    peers = {beside: bare} if bare > 0 else {}
    return Result(name, take_median(samples), unit, peers=peers, samples=samples, details=told)
