"""Many sleepers on few timers.

A timer of its own costs each sleeper about 5 µs and 400 bytes on uvloop. A million agents that think
for a second are awake within a second or two, so here all who are due in the same millisecond share
one timer: a sleep costs a future and an append.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Wakeups:
    """Sleeps of many tasks on one event loop, with one timer for each millisecond that has sleepers.

    A sleeper is never woken early, and at most one millisecond late on an idle loop. Sleepers due in
    the same millisecond are woken in the order in which they came. Belongs to the loop of its first
    use. A cancelled sleep costs nothing but keeps its future until its time.
    """

    __slots__ = ("_buckets", "_clock", "_create_future", "_loop")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._create_future: Callable[[], asyncio.Future[None]] = self._bind_loop
        self._buckets: dict[int, list[asyncio.Future[None]]] = {}

    @property
    def sleepers(self) -> int:
        """Sleeps not yet due, cancelled ones included."""
        return sum(map(len, self._buckets.values()))

    def sleep_ms(self, delay_ms: float) -> asyncio.Future[None]:
        """Returns a future that is done `delay_ms` milliseconds from now; await it or cancel it."""
        # The loop's own time stands still while a burst of tasks starts (uvloop reads it once an
        # iteration), which would cut a simulated second to nothing; hence the clock.
        due_ms = int(self._clock() * 1000.0 + delay_ms) + 1
        future = self._create_future()
        bucket = self._buckets.get(due_ms)
        if bucket is None:
            self._buckets[due_ms] = [future]
            self._arm_timer(due_ms)
        else:
            bucket.append(future)
        return future

    def _bind_loop(self) -> asyncio.Future[None]:
        self._loop = asyncio.get_running_loop()
        self._create_future = self._loop.create_future
        return self._loop.create_future()

    def _arm_timer(self, due_ms: int) -> None:
        assert self._loop is not None
        self._loop.call_later(max(0.0, due_ms / 1000.0 - self._clock()), self._wake_bucket, due_ms)

    def _wake_bucket(self, due_ms: int) -> None:
        if self._clock() * 1000.0 < due_ms:
            # Event loops round timers and may run them up to a millisecond early.
            self._arm_timer(due_ms)
            return
        for future in self._buckets.pop(due_ms):
            if not future.done():
                future.set_result(None)
