"""A counting lock for crowds."""

from __future__ import annotations

import asyncio
from collections import deque


class Slots:
    """At most `slots_max` holders at a time; the others wait in the order in which they came.

    Like `asyncio.Semaphore`, but a release costs the same however many are waiting: that one walks
    past all whom it has woken in the same step of the loop, which is quadratic when ten thousand
    answers arrive together.
    """

    __slots__ = ("_free", "_waiters")

    def __init__(self, slots_max: int) -> None:
        self._free = slots_max
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Returns when the caller holds a slot. Cancelled, it holds none."""
        if self._free > 0:
            self._free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                # Woken and cancelled in the same step: the slot goes to the next.
                self.release()
            raise

    def release(self) -> None:
        """Hands the slot to whoever has waited longest, else frees it."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
