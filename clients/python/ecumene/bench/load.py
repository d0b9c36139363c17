"""One client in a process of its own: `python -m ecumene.bench.load CASE`, where CASE is a JSON document.

Prepares keys and values, warms up, sends, and prints one JSON line: what was done, how long it took, and the CPU that
it and the server used meanwhile. The same load runs against the SDK with a server, and against the bare limit.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any

from ecumene.bench.child import run_child, tell
from ecumene.bench.load_case import (
    ENVIRONMENT,
    WARM_ENVIRONMENT,
    LoadCase,
    LoadResult,
    Meter,
    name_all,
    name_keys,
    spare_collector,
)
from ecumene.bench.senders import FrameSender, UnarySender, open_frame_sender, open_unary_sender
from ecumene.client.world import connect

HOLD_MS = 10.0
IN_FLIGHT_PER_SESSION = 16
FILL_FRAMES_KEPT = 128


async def measure(case: LoadCase) -> LoadResult:
    """Run one case."""
    return await MEASURES[case.kind](case)


async def measure_frames(case: LoadCase) -> LoadResult:
    """One client that keeps the pipeline full."""
    keys = name_keys(case)
    values = [index * 0.5 for index in range(case.ops)]
    warm_keys = [f"w{key}" for key in keys[: case.warm_ops]]
    async with open_frame_sender(case.target, case.address, [ENVIRONMENT, WARM_ENVIRONMENT]) as sender:
        await send_frames(sender, WARM_ENVIRONMENT, warm_keys, values, case)
        spare_collector()
        meter = Meter(case.server_pid)
        done = await send_frames(sender, ENVIRONMENT, keys, values, case)
        return meter.stop(case.ops, done)


async def send_frames(
    sender: FrameSender, path: str, keys: Sequence[str], values: Sequence[float], case: LoadCase
) -> int:
    """Send all keys in frames; returns how many ops were done."""
    answers: list[Awaitable[int]] = []
    for start in range(0, len(keys), case.frame_ops):
        block = keys[start : start + case.frame_ops]
        producers = block if case.own_producers else None
        answers.append(await sender.submit(path, block, values[start : start + len(block)], producers))
    return sum([await answer for answer in answers])


async def measure_grown(case: LoadCase) -> LoadResult:
    """One client that keeps the pipeline full over entries that are there already, drawn evenly."""
    keys = name_keys(case)
    values = [index * 0.5 for index in range(max(case.ops, case.frame_ops))]
    async with open_frame_sender(case.target, case.address, [ENVIRONMENT]) as sender:
        answers: list[Awaitable[int]] = []
        filled = 0
        for block in name_all(case.keys, case.frame_ops):
            answers.append(await sender.submit(ENVIRONMENT, block, values[: len(block)], None))
            if len(answers) > FILL_FRAMES_KEPT:
                filled += await answers.pop(0)
        filled += sum([await answer for answer in answers])
        if filled != case.keys:
            return LoadResult(case.keys, filled, 1.0, 0.0, 0.0)
        await send_frames(sender, ENVIRONMENT, keys[: case.warm_ops], values, case)
        spare_collector()
        meter = Meter(case.server_pid)
        done = await send_frames(sender, ENVIRONMENT, keys, values, case)
        return meter.stop(case.ops, done)


async def measure_one_key(case: LoadCase) -> LoadResult:
    """Many sessions on one key, each with a few frames in its pipeline."""
    share = case.ops // case.clients
    values = [index * 0.5 for index in range(case.frame_ops)]
    key = ["key"] * case.frame_ops

    async def send(sender: FrameSender, ops: int) -> int:
        waiting: list[Awaitable[int]] = []
        done = 0
        for _ in range(0, ops, case.frame_ops):
            if len(waiting) == IN_FLIGHT_PER_SESSION:
                done += await waiting.pop(0)
            waiting.append(await sender.submit(ENVIRONMENT, key, values, None))
        return done + sum([await answer for answer in waiting])

    opened = [open_frame_sender(case.target, case.address, [ENVIRONMENT]) for _ in range(case.clients)]
    senders = [await one.__aenter__() for one in opened]
    try:
        await asyncio.gather(*(send(sender, case.warm_ops // case.clients) for sender in senders))
        spare_collector()
        meter = Meter(case.server_pid)
        done = sum(await asyncio.gather(*(send(sender, share) for sender in senders)))
        return meter.stop(share * case.clients, done)
    finally:
        for one in opened:
            await one.__aexit__(None, None, None)


async def measure_unary(case: LoadCase) -> LoadResult:
    """Clients that each send the next op when the last one is answered."""
    opened = [open_unary_sender(case.target, case.address, ENVIRONMENT) for _ in range(case.clients)]
    senders = [await one.__aenter__() for one in opened]

    async def send(sender: UnarySender, client: int, ops: int) -> list[float]:
        latencies_s = []
        for index in range(ops):
            start_s = time.perf_counter()
            await sender.put(f"{client}-{index % 16}", index * 0.5)
            latencies_s.append(time.perf_counter() - start_s)
        return latencies_s

    async def send_all(ops: int) -> list[float]:
        share = ops // case.clients
        parts = await asyncio.gather(*(send(sender, client, share) for client, sender in enumerate(senders)))
        return [latency for part in parts for latency in part]

    try:
        await send_all(case.warm_ops)
        spare_collector()
        meter = Meter(case.server_pid)
        latencies_s = await send_all(case.ops)
        return meter.stop(len(latencies_s), len(latencies_s), latencies_s)
    finally:
        for one in opened:
            await one.__aexit__(None, None, None)


async def measure_held(case: LoadCase) -> LoadResult:
    """Operations that hold a key each for 10 ms; twice as many asked for as may run at a time."""
    async with connect(case.address) as world:
        environment = world.environment(ENVIRONMENT)
        await environment.register(kind=f"hold-{case.clients}", if_absent=True)

        async def hold(caller: int, times: int) -> int:
            for _ in range(times):
                await environment.invoke("hold", key=str(caller), hold_ms=HOLD_MS)
            return times

        callers = 2 * case.clients
        await asyncio.gather(*(hold(caller, 1) for caller in range(callers)))
        spare_collector()
        meter = Meter(case.server_pid)
        done = sum(await asyncio.gather(*(hold(caller, case.ops // callers) for caller in range(callers))))
        return meter.stop(done, done)


MEASURES: dict[str, Callable[[LoadCase], Awaitable[LoadResult]]] = {
    "frames": measure_frames,
    "grown": measure_grown,
    "one_key": measure_one_key,
    "unary": measure_unary,
    "held": measure_held,
}


async def main(document: dict[str, Any]) -> None:
    """Run a case and tell the parent."""
    tell(asdict(await measure(LoadCase(**document))))


if __name__ == "__main__":
    run_child(main(json.loads(sys.argv[1])))
