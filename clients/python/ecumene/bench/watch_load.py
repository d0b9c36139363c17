"""One side of a watch in a process of its own: `python -m ecumene.bench.watch_load CASE`, where CASE is JSON.

Says when it is ready, begins on a line from its parent, and prints what it came to. Moments are of the system's
monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc

from ecumene.bench.child import Parent, run_child, tell
from ecumene.bench.load_case import ENVIRONMENT, spare_collector, take_share
from ecumene.bench.senders import FrameSender, open_frame_sender
from ecumene.bench.wire import EVENTS_METHOD, read_events
from ecumene.client.model import EventFilter
from ecumene.client.watches import FrameWatch
from ecumene.client.world import World, connect

ELSEWHERE = "/elsewhere"


@dataclass(frozen=True, slots=True)
class WatchCase:
    """What to do.

    Attributes:
        role: `publish`, `read` (one watch, in batches), `read_rows` (one watch, event by event), `stand` (watches
            that match nothing), `own_keys` (watches that match a key each).
        target: `server` or `lean`.
        events: to be published, or read.
        frame_ops: events a frame.
        keys: that the events are of, in turn.
        watches: to hold.
    """

    role: str
    target: str
    address: str
    events: int = 0
    frame_ops: int = 1000
    keys: int = 1000
    watches: int = 0


async def publish(case: WatchCase, parent: Parent) -> dict[str, Any]:
    """Keep the pipeline full until all events are written; how many were, and when it began and ended."""
    keys = [f"a{index % case.keys}" for index in range(case.events)]
    values = [index * 0.5 for index in range(case.events)]
    async with open_frame_sender(case.target, case.address, [ENVIRONMENT]) as sender:
        spare_collector()
        tell({"ready": True})
        await parent.wait_for_go()
        start_s = time.monotonic()
        done = await _send(sender, keys, values, case.frame_ops)
        return {"done": done, "start_s": start_s, "end_s": time.monotonic()}


async def read(case: WatchCase, parent: Parent) -> dict[str, Any]:
    """Read all events in batches: revision, key, value and version of each; when the last one was there."""
    if case.target == "lean":
        return await _read_lean(case, parent)
    async with connect(case.address) as world, world.watch_frames(EventFilter(path_prefix=ENVIRONMENT)) as watch:
        await _begin(world, parent)
        count, expected, total = 0, 0, 0.0
        while count < case.events:
            batch = await anext(watch)
            revisions, keys, values, versions = batch.revisions, batch.keys, batch.values, batch.versions
            if expected and revisions[0] != expected:
                raise SystemExit(f"the event of revision {expected} is missing")
            if not len(revisions) == len(keys) == len(values) == len(versions) == len(batch):
                raise SystemExit("a column is not as long as its batch")
            total += values[-1]  # type: ignore[operator]
            count, expected = count + len(batch), revisions[-1] + 1
        return {"done": count, "end_s": time.monotonic(), "total": total}


async def read_rows(case: WatchCase, parent: Parent) -> dict[str, Any]:
    """Read all events one by one, as most programs do."""
    async with connect(case.address) as world, world.watch(EventFilter(path_prefix=ENVIRONMENT)) as watch:
        await _begin(world, parent)
        count, expected, total = 0, 0, 0.0
        async for event in watch:
            if expected and event.revision != expected:
                raise SystemExit(f"the event of revision {expected} is missing")
            expected = event.revision + 1
            if event.key:
                total += event.value  # type: ignore[operator]
            count += 1
            if count == case.events:
                break
        return {"done": count, "end_s": time.monotonic(), "total": total}


async def stand(case: WatchCase, parent: Parent) -> dict[str, Any]:
    """Hold watches that match nothing: half elsewhere in the world, half on other keys of the same environment."""
    async with connect(case.address) as world:
        await world.environment(ELSEWHERE).register(if_absent=True)
        watches = [
            world.watch_frames(EventFilter(path_prefix=ELSEWHERE, key_glob=f"k{index}"))
            if index % 2
            else world.watch_frames(EventFilter(path_prefix=ENVIRONMENT, key_glob=f"other{index}"))
            for index in range(case.watches)
        ]
        await _begin(world, parent)
        await parent.wait_for_go()
        unread = sum(watch.statistics().events_unread for watch in watches)
        ended = sum(watch.statistics().is_ended for watch in watches)
        return {"unread": unread, "ended": ended}


async def own_keys(case: WatchCase, parent: Parent) -> dict[str, Any]:
    """Hold watches on a key each, write every key once, and wait for the first event of each watch."""
    async with connect(case.address) as world:
        await world.environment(ENVIRONMENT).register(if_absent=True)
        names = [f"k{index}" for index in range(case.watches)]
        watches = [world.watch_frames(EventFilter(path_prefix=ENVIRONMENT, key_glob=name)) for name in names]
        await _begin(world, parent)

        async def wait(watch: FrameWatch, name: str) -> float:
            batch = await anext(watch)
            if batch.keys != [name]:
                raise SystemExit(f"the watch on {name} got {batch.keys}")
            return time.monotonic()

        waits = [
            asyncio.create_task(wait(watch, name), name=f"first event of {name}")
            for watch, name in zip(watches, names, strict=True)
        ]
        await asyncio.sleep(0)
        start_s = time.monotonic()
        values = [1.0] * len(names)
        block = case.frame_ops
        for start in range(0, len(names), block):
            await world.frames.submit_block(ENVIRONMENT, names[start : start + block], values[start : start + block])
        delays_s = [moment - start_s for moment in await asyncio.gather(*waits)]
        return {"p50_ms": 1e3 * take_share(delays_s, 0.5), "last_ms": 1e3 * max(delays_s)}


async def _begin(world: World, parent: Parent) -> None:
    """Wait until every watch made so far runs on the server, then for the parent's word."""
    await world.environment("/").describe()  # behind the questions what "now" is
    await world.environment("/").describe()  # behind the starts of the watches
    spare_collector()
    tell({"ready": True})
    await parent.wait_for_go()


async def _read_lean(case: WatchCase, parent: Parent) -> dict[str, Any]:
    async with grpc.aio.insecure_channel(case.address) as channel:
        method: Any = channel.unary_stream(EVENTS_METHOD)
        call = method(b"")
        await call.read()
        spare_collector()
        tell({"ready": True})
        await parent.wait_for_go()
        count, total = 0, 0.0
        while count < case.events:
            _, added, keys, values, versions = read_events(await call.read())
            if not len(keys) == len(values) == len(versions) == added:
                raise SystemExit("a column is not as long as its batch")
            total += values[-1]
            count += added
        end_s = time.monotonic()
        call.cancel()
        return {"done": count, "end_s": end_s, "total": total}


async def _send(sender: FrameSender, keys: list[str], values: list[float], frame_ops: int) -> int:
    answers: list[Awaitable[int]] = []
    done = 0
    for start in range(0, len(keys), frame_ops):
        block = keys[start : start + frame_ops]
        answers.append(await sender.submit(ENVIRONMENT, block, values[start : start + len(block)], None))
    for answer in answers:
        done += await answer
    return done


ROLES: dict[str, Callable[[WatchCase, Parent], Awaitable[dict[str, Any]]]] = {
    "publish": publish,
    "read": read,
    "read_rows": read_rows,
    "stand": stand,
    "own_keys": own_keys,
}


async def main(document: dict[str, Any]) -> None:
    """Play one role and tell the parent."""
    case = WatchCase(**document)
    async with Parent() as parent:
        tell(await ROLES[case.role](case, parent))


if __name__ == "__main__":
    run_child(main(json.loads(sys.argv[1])))
