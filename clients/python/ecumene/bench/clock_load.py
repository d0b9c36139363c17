"""Timers of one client: `python -m ecumene.bench.clock_load CASE`, where CASE is a JSON document; one JSON line.

`fire`: a manual clock is advanced over all firings of some repeating timers. `wait`: timers that wait, and what they
weigh. `late`: a realtime clock, and how long behind its time each firing is heard. `jump`: an event-driven clock whose
participants all hear each tick. `declare`: only clocks, for others.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, cast

from ecumene.bench.child import run_child, tell
from ecumene.bench.load_case import ENVIRONMENT, WARM_ENVIRONMENT, Meter, spare_collector, take_share
from ecumene.bench.processes import BenchError, read_anonymous_bytes
from ecumene.client.clocks import Clock, ns
from ecumene.client.frames import Frame
from ecumene.client.model import EventFilter, EventType
from ecumene.client.participants import Participant
from ecumene.client.world import World, connect

PARTICIPANTS = "/participants"
FRAME_OPS = 1000
PERIOD_NS = ns(seconds=1)
FAR_NS = ns(days=1)
CLOCK_READS = 20

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class ClockCase:
    """What to do.

    Attributes:
        role: `fire`, `wait`, `late` or `declare`.
        mode: of the clock that is declared: `manual`, `realtime` or `event_driven`.
        timers: that are set.
        firings: of all of them together.
        participants: of an event-driven clock.
    """

    role: str
    address: str
    server_pid: int
    mode: str = "manual"
    timers: int = 0
    firings: int = 0
    participants: int = 0


async def fire(case: ClockCase, world: World) -> Figures:
    """Repeating timers, spread over their period, all due once in each."""
    set_us = await _set_timers(
        world, case, at_ns=lambda index: 1 + index * PERIOD_NS // case.timers, every_ns=PERIOD_NS
    )
    periods = case.firings // case.timers
    spare_collector()
    meter = Meter(case.server_pid)
    await world.environment(ENVIRONMENT).clock().advance(to_ns=periods * PERIOD_NS)
    result = meter.stop(case.firings, case.firings)
    fired = sum([timer.fired async for timer in world.environment(ENVIRONMENT).timers()])
    if fired != periods * case.timers:
        raise BenchError(f"of {case.firings:,} firings {fired:,} were made")
    return {"set_us": set_us, "fire_us": 1e6 * result.server_cpu_s / fired, "wall_us": 1e6 * result.wall_s / fired}


async def wait(case: ClockCase, world: World) -> Figures:
    """Memory of the server for each timer that waits."""
    await _set_timers(world, case, at_ns=lambda index: FAR_NS + index, name="w", limit=FRAME_OPS)
    before = read_anonymous_bytes(case.server_pid)
    set_us = await _set_timers(world, case, at_ns=lambda index: FAR_NS + index)
    grown = read_anonymous_bytes(case.server_pid) - before
    return {"bytes": grown / case.timers, "set_us": set_us}


async def late(case: ClockCase, world: World) -> Figures:
    """How long behind its time each firing is heard, as the client's own clock has it."""
    clock = world.environment(ENVIRONMENT).clock()
    begin_ns = await _compare(clock.state)
    first_ns = time.monotonic_ns() - begin_ns + PERIOD_NS
    await _set_timers(world, case, at_ns=lambda index: first_ns + index * PERIOD_NS // case.timers, every_ns=PERIOD_NS)
    late_ms: list[float] = []
    fired = EventFilter(path_prefix=ENVIRONMENT, types=(EventType.TIMER_FIRED,))
    meter = Meter(case.server_pid)
    async with world.watch_frames(fired) as watch:
        async for batch in watch:
            now_ns = time.monotonic_ns() - begin_ns
            late_ms += [(now_ns - told["due_ns"]) / 1e6 for told in cast("list[dict[str, int]]", batch.values)]
            if len(late_ms) >= case.firings:
                break
    result = meter.stop(len(late_ms), len(late_ms))
    return {
        "p50_ms": take_share(late_ms, 0.5),
        "p99_ms": take_share(late_ms, 0.99),
        "fire_us": 1e6 * result.server_cpu_s / len(late_ms),
    }


async def jump(case: ClockCase, world: World) -> Figures:
    """A tick after the other, each heard by everybody before the clock goes on."""
    place = world.environment(ENVIRONMENT)
    heard = [EventFilter(path_prefix=ENVIRONMENT, types=(EventType.TIMER_FIRED,))]
    async with AsyncExitStack() as stack:
        everybody = [
            await stack.enter_async_context(place.clock().participate(f"p{index}", hears=heard))
            for index in range(case.participants)
        ]
        await place.set_timer("tick", at_ns=1, every_ns=1)
        spare_collector()
        meter = Meter(case.server_pid)
        ticks = await asyncio.gather(*(_hear(one, case.firings) for one in everybody))
        result = meter.stop(case.firings, min(ticks))
    return {
        "jumps_s": result.done / result.wall_s,
        "server_us_op": 1e6 * result.server_cpu_s / result.done,
        "client_us_op": 1e6 * result.client_cpu_s / result.done,
    }


async def _hear(participant: Participant, firings: int) -> int:
    """How many ticks it has heard."""
    ticks = 0
    async for batch in participant:
        ticks += batch.types.count(EventType.TIMER_FIRED)
        if ticks >= firings:
            break
    return ticks


async def _compare(read: Callable[[], Awaitable[Any]]) -> int:
    """What the machine's monotonic clock showed when the simulated one began, by the quickest of some answers."""
    tried = []
    for _ in range(CLOCK_READS):
        asked_ns = time.monotonic_ns()
        state = await read()
        answered_ns = time.monotonic_ns()
        tried.append((answered_ns - asked_ns, (asked_ns + answered_ns) // 2 - state.now_ns))
    return min(tried)[1]


async def _set_timers(
    world: World,
    case: ClockCase,
    *,
    at_ns: Callable[[int], int],
    every_ns: int = 0,
    name: str = "t",
    limit: int = sys.maxsize,
) -> float:
    """Server CPU of each, in microseconds."""
    count = min(case.timers, limit)
    meter = Meter(case.server_pid)
    answers = []
    for start in range(0, count, FRAME_OPS):
        frame = Frame()
        for index in range(start, min(start + FRAME_OPS, count)):
            frame.set_timer(ENVIRONMENT, f"{name}{index}", at_ns=at_ns(index), every_ns=every_ns)
        answers.append(await world.frames.submit(frame))
    done = sum([(await answer).ok_count for answer in answers])
    if done != count:
        raise BenchError(f"of {count:,} timers {done:,} were set")
    return 1e6 * meter.stop(count, done).server_cpu_s / count


async def main(document: dict[str, Any]) -> None:
    """Play one role and tell the parent."""
    case = ClockCase(**document)
    clocks = {
        "manual": Clock.manual(),
        "realtime": Clock.realtime(),
        "event_driven": Clock.event_driven(participants_path=PARTICIPANTS),
    }
    async with connect(case.address) as world:
        await world.environment(PARTICIPANTS).register()
        for path in (ENVIRONMENT, WARM_ENVIRONMENT):
            await world.environment(path).register(clock=clocks[case.mode])
        roles = {"fire": fire, "wait": wait, "late": late, "jump": jump}
        tell(await roles[case.role](case, world) if case.role in roles else {})


if __name__ == "__main__":
    run_child(main(json.loads(sys.argv[1])))
