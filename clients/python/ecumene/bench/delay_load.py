"""Writes one after the other while something else goes on: `python -m ecumene.bench.delay_load CASE`, a JSON document.

    held     a behaviour holds a key for a second, again and again; writers on the same session and on another one
             write other keys of the same environment
    saving   so many entries were changed that their state is being saved; a writer writes further keys

Each is measured in phases, in turn with phases in which the server has nothing else to do.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ecumene.bench.child import run_child, tell
from ecumene.bench.load_case import ENVIRONMENT, name_all, spare_collector, take_share
from ecumene.client.environment import Environment
from ecumene.client.world import World, connect

HELD_KIND = "hold-8"
HELD_KEY = "held"
BIG = "/big"
KEYS = 16
FRAME_OPS = 1000
FRAMES_KEPT = 128


@dataclass(frozen=True, slots=True)
class DelayCase:
    """What to do.

    Attributes:
        kind: `held` or `saving`.
        phases: of each sort.
        writes: in a phase, of each writer.
        hold_ms: how long the key is held at a time.
        entries: that the world of `saving` has.
        changed: of them, drawn at random before each phase of saving.
    """

    kind: str
    address: str
    phases: int
    writes: int
    hold_ms: float = 0.0
    entries: int = 0
    changed: int = 0


async def measure_held(case: DelayCase) -> dict[str, float]:
    """99th percentiles in ms: idle, with a key held by the same session, and by another one."""
    async with connect(case.address) as first, connect(case.address) as second:
        own, other = (world.environment(ENVIRONMENT) for world in (first, second))
        await own.register(kind=HELD_KIND, if_absent=True)
        delays: dict[str, list[float]] = {name: [] for name in ("idle", "idle_other", "same", "other")}

        async def write_both(names: tuple[str, str]) -> None:
            parts = await asyncio.gather(write(own, "own", case.writes), write(other, "other", case.writes))
            for name, part in zip(names, parts, strict=True):
                delays[name] += part

        await write_both(("idle", "idle_other"))
        for part in delays.values():
            part.clear()
        spare_collector()
        for _ in range(case.phases):
            await write_both(("idle", "idle_other"))
            holding = asyncio.create_task(hold(own, case.hold_ms), name="hold a key")
            await asyncio.sleep(0.05)
            await write_both(("same", "other"))
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)
            await own.set(HELD_KEY, 0)  # behind the operation that still holds it
        return {f"{name}_p99_ms": 1e3 * take_share(part, 0.99) for name, part in delays.items()}


async def hold(environment: Environment, hold_ms: float) -> None:
    """Hold a key over and over."""
    while True:
        await environment.invoke("hold", key=HELD_KEY, hold_ms=hold_ms)


async def measure_saving(case: DelayCase) -> dict[str, float]:
    """99th percentiles in ms: idle, and while the state of a large world is being saved."""
    async with connect(case.address) as filler, connect(case.address) as writer:
        await filler.environment(BIG).register(if_absent=True)
        environment = writer.environment(ENVIRONMENT)
        await environment.register(if_absent=True)
        await send(filler, [key for block in name_all(case.entries, FRAME_OPS) for key in block])
        chance = random.Random(1)
        idle: list[float] = []
        saving: list[float] = []
        spare_collector()
        for _ in range(case.phases):
            # Enough changes of few keys let a round that is under way come to its end.
            await send(filler, [f"a{index % FRAME_OPS}" for index in range(case.changed // 2)])
            await write(environment, "warm", case.writes // 10)
            idle += await write(environment, "own", case.writes)
            await send(filler, [f"a{chance.randrange(case.entries)}" for _ in range(case.changed)])
            saving += await write(environment, "own", case.writes)
        return {
            "idle_p99_ms": 1e3 * take_share(idle, 0.99),
            "saving_p99_ms": 1e3 * take_share(saving, 0.99),
            "saving_max_ms": 1e3 * max(saving),
        }


async def write(environment: Environment, name: str, times: int) -> list[float]:
    """One write after the other; how long each took, in s."""
    delays_s = []
    for index in range(times):
        start_s = time.perf_counter()
        await environment.set(f"{name}{index % KEYS}", index * 0.5)
        delays_s.append(time.perf_counter() - start_s)
    return delays_s


async def send(world: World, keys: list[str]) -> None:
    """Write many keys in a pipeline."""
    values = [1.0] * FRAME_OPS
    answers: list[asyncio.Future[Any]] = []
    for start in range(0, len(keys), FRAME_OPS):
        block = keys[start : start + FRAME_OPS]
        answers.append(await world.frames.submit_block(BIG, block, values[: len(block)]))
        if len(answers) > FRAMES_KEPT:
            await answers.pop(0)
    await asyncio.gather(*answers)


MEASURES: dict[str, Callable[[DelayCase], Awaitable[dict[str, float]]]] = {
    "held": measure_held,
    "saving": measure_saving,
}


async def main(document: dict[str, Any]) -> None:
    """Run a case and tell the parent."""
    case = DelayCase(**document)
    tell(await MEASURES[case.kind](case))


if __name__ == "__main__":
    run_child(main(json.loads(sys.argv[1])))
