"""`ecumene bench watch`: what watches deliver, and what they cost those who write.

deliveries      publisher ──► server ──► one watch ──► reader; live, each event another revision
publish_us      server CPU an op, without watches and with 10,000 that do not match
first_event_ms  10,000 watches on a key each; every key is written once
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any

from ecumene.bench.machine import describe_machine
from ecumene.bench.processes import (
    READY_TIMEOUT_S,
    BenchError,
    Child,
    read_anonymous_bytes,
    read_cpu_s,
    run_child,
)
from ecumene.bench.results import Goal, Report, Result, take_median
from ecumene.bench.targets import run_target
from ecumene.bench.watch_load import WatchCase

LOAD_MODULE = "ecumene.bench.watch_load"
REPEATS = 3
WORK_TIMEOUT_S = 300.0
PUBLISH_FRAME_OPS = 64
"""Small frames, so that groups are many and what each costs to publish is seen."""

Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    repeats: int
    events: int
    row_events: int
    publish_ops: int
    watches: int


FULL = Sizes(REPEATS, 2_000_000, 500_000, 1_000_000, 10_000)
QUICK = Sizes(1, 50_000, 10_000, 20_000, 500)


async def bench_watch(*, is_quick: bool, note: Note) -> Report:
    """Measure all figures. `note` is told what is being done.

    Raises:
        BenchError: a part failed, took too long, or an event was lost.
        LaunchError: the server did not start.
    """
    machine = await asyncio.to_thread(describe_machine)
    sizes = QUICK if is_quick else FULL
    results = await measure_deliveries(sizes, note)
    results += await measure_publishing(sizes, note)
    results += await measure_first_events(sizes, note)
    return Report("watch", machine, results, is_quick)


async def measure_deliveries(sizes: Sizes, note: Note) -> list[Result]:
    """Events a second from the first write to the last event read: in batches, bare, and one by one."""
    samples: dict[str, list[dict[str, float]]] = {"ours": [], "limit": [], "rows": []}
    for repeat in range(sizes.repeats):
        note(f"deliveries, sample {repeat + 1}")
        samples["ours"].append(await deliver("server", "read", sizes.events))
        samples["limit"].append(await deliver("lean", "read", sizes.events))
        samples["rows"].append(await deliver("server", "read_rows", sizes.row_events))

    def read(name: str, field: str) -> list[float]:
        return [one[field] for one in samples[name]]

    figures = {name: read(name, "events_s") for name in samples}
    details = {name: take_median(read("ours", name)) for name in samples["ours"][0] if name != "events_s"}
    rows_details = {name: take_median(read("rows", name)) for name in details}
    limit = take_median(figures["limit"])
    return [
        Result(
            "deliveries",
            take_median(figures["ours"]),
            "events/s",
            limit,
            Goal(at_least=300_000),
            samples=figures["ours"],
            details=details,
        ),
        Result(
            "deliveries_rows",
            take_median(figures["rows"]),
            "events/s",
            samples=figures["rows"],
            details=rows_details,
        ),
    ]


async def deliver(target: str, role: str, events: int) -> dict[str, float]:
    """One publisher, one reader."""
    async with AsyncExitStack() as stack:
        address, pid = await stack.enter_async_context(run_target(target))
        publisher = await start(stack, WatchCase("publish", target, address, events))
        reader = await start(stack, WatchCase(role, target, address, events))
        before_s = read_cpu_s(pid)
        reader.go()
        publisher.go()
        published = await publisher.read(WORK_TIMEOUT_S)
        received = await reader.read(WORK_TIMEOUT_S)
        used_s = read_cpu_s(pid) - before_s
        if not published["done"] == received["done"] == events:
            raise BenchError(f"of {events:,} events {published['done']:,} were written, {received['done']:,} read")
        return {
            "events_s": events / (received["end_s"] - published["start_s"]),
            "server_us_op": 1e6 * used_s / events,
            "behind_ms": 1e3 * max(0.0, received["end_s"] - published["end_s"]),
        }


async def measure_publishing(sizes: Sizes, note: Note) -> list[Result]:
    """Server CPU an op, without watches and with many that do not match, in turn."""
    without: list[dict[str, float]] = []
    beside: list[dict[str, float]] = []
    for repeat in range(sizes.repeats):
        note(f"publish_us, sample {repeat + 1}")
        without.append(await publish_beside(0, sizes.publish_ops))
        beside.append(await publish_beside(sizes.watches, sizes.publish_ops))

    def summarise(name: str, samples: Sequence[dict[str, float]], limit: float | None, goal: Goal | None) -> Result:
        values = [one["server_us_op"] for one in samples]
        details = {"wall_us_op": take_median([one["wall_us_op"] for one in samples])}
        return Result(name, take_median(values), "µs", limit, goal, samples=values, details=details)

    base = summarise("publish_us", without, None, None)
    return [base, summarise("publish_us_10k_watches", beside, base.value, Goal(share_at_most=1.2))]


async def publish_beside(watches: int, ops: int) -> dict[str, float]:
    """Write beside a session that holds so many watches that do not match."""
    async with AsyncExitStack() as stack:
        address, pid = await stack.enter_async_context(run_target("server"))
        publisher = await start(stack, WatchCase("publish", "server", address, ops, PUBLISH_FRAME_OPS))
        holder = await start(stack, WatchCase("stand", "server", address, watches=watches)) if watches else None
        if holder is not None:
            holder.go()
        before_s = read_cpu_s(pid)
        publisher.go()
        published = await publisher.read(WORK_TIMEOUT_S)
        used_s = read_cpu_s(pid) - before_s
        if holder is not None:
            holder.go()
            held = await holder.read(WORK_TIMEOUT_S)
            if held["unread"] or held["ended"]:
                raise BenchError(
                    f"of the watches that match nothing {held['ended']} ended, {held['unread']} events came"
                )
        if published["done"] != ops:
            raise BenchError(f"of {ops:,} ops {published['done']:,} were done")
        wall_s = published["end_s"] - published["start_s"]
        return {"server_us_op": 1e6 * used_s / ops, "wall_us_op": 1e6 * wall_s / ops}


async def measure_first_events(sizes: Sizes, note: Note) -> list[Result]:
    """Memory of a watch on the server, and how long its first event takes when all get one at once."""
    memory: list[float] = []
    samples: list[dict[str, Any]] = []
    for repeat in range(sizes.repeats):
        note(f"{sizes.watches:,} watches of own keys, sample {repeat + 1}")
        async with AsyncExitStack() as stack:
            address, pid = await stack.enter_async_context(run_target("server"))
            before = read_anonymous_bytes(pid)
            watcher = await start(stack, WatchCase("own_keys", "server", address, watches=sizes.watches))
            memory.append((read_anonymous_bytes(pid) - before) / sizes.watches / 1024)
            watcher.go()
            samples.append(await watcher.read(WORK_TIMEOUT_S))
    last = [one["last_ms"] for one in samples]
    p50_ms = take_median([one["p50_ms"] for one in samples])
    return [
        Result("watch_kib", take_median(memory), "KiB", samples=memory, details={"watches": sizes.watches}),
        Result("first_event_ms", take_median(last), "ms", samples=last, details={"p50_ms": p50_ms}),
    ]


async def start(stack: AsyncExitStack, case: WatchCase) -> Child:
    """Start one side; returns when it is ready."""
    child = await stack.enter_async_context(run_child(LOAD_MODULE, [json.dumps(asdict(case))]))
    await child.read(READY_TIMEOUT_S)
    return child
