"""The bare limit of timers: `python -m ecumene.bench.limits.bare_timers ROLE TIMERS FIRINGS`; one JSON line.

`fire`: a heap of when which timer is due, nothing told, checked or kept. `wait`: what a timer weighs in a heap and a
dict. `late`: asyncio's own alarms, in the process that hears them.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from heapq import heapify, heapreplace

from ecumene.bench.child import run_child, tell
from ecumene.bench.load_case import spare_collector, take_share
from ecumene.bench.processes import read_anonymous_bytes

PERIOD_NS = 1_000_000_000


def fire(timers: int, firings: int) -> dict[str, float]:
    """Each timer in its turn, and when it is due again."""
    heap = [(1 + index * PERIOD_NS // timers, index, f"t{index}") for index in range(timers)]
    heapify(heap)
    fired: dict[str, int] = {}
    spare_collector()
    start_s = time.process_time()
    for _ in range(firings):
        due_ns, order, name = heap[0]
        fired[name] = fired.get(name, 0) + 1
        heapreplace(heap, (due_ns + PERIOD_NS, order, name))
    return {"fire_us": 1e6 * (time.process_time() - start_s) / firings}


def wait(timers: int) -> dict[str, float]:
    """The name, the time, and both in a heap and a dict."""
    before = read_anonymous_bytes(os.getpid())
    names = [f"t{index}" for index in range(timers)]
    heap = [(PERIOD_NS + index, index, name) for index, name in enumerate(names)]
    found = dict(zip(names, heap, strict=True))
    grown = read_anonymous_bytes(os.getpid()) - before
    return {"bytes": grown / len(found)}


async def late(timers: int, firings: int) -> dict[str, float]:
    """How long behind its time each alarm is called."""
    loop = asyncio.get_running_loop()
    spare_collector()
    late_ms: list[float] = []
    done = asyncio.Event()
    period_s = PERIOD_NS / 1e9

    def ring(due_s: float) -> None:
        late_ms.append(1e3 * (time.monotonic() - due_s))
        if len(late_ms) >= firings:
            done.set()
        else:
            set_alarm(due_s + period_s)

    def set_alarm(due_s: float) -> None:
        # A loop's own time may be rounded, and stands still in a step.
        loop.call_later(max(0.0, due_s - time.monotonic()), ring, due_s)

    first_s = time.monotonic() + period_s
    for index in range(timers):
        set_alarm(first_s + index * period_s / timers)
    await done.wait()
    return {"p50_ms": take_share(late_ms, 0.5), "p99_ms": take_share(late_ms, 0.99)}


async def main(role: str, timers: int, firings: int) -> None:
    """Play one role and tell the parent."""
    if role == "late":
        tell(await late(timers, firings))
    else:
        tell(fire(timers, firings) if role == "fire" else wait(timers))


if __name__ == "__main__":
    run_child(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
