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
        if (waiter := self.enter()) is None:
            return
        try:
            await waiter
        except asyncio.CancelledError:
            self.give_up(waiter)
            raise

    def enter(self) -> asyncio.Future[None] | None:
        """Takes a slot and returns None, or returns what is done once the caller holds one: for callers who
        cannot afford a coroutine each while they wait. If awaiting it is cancelled, `give_up` it."""
        if self._free > 0:
            self._free -= 1
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter

    def give_up(self, waiter: asyncio.Future[None]) -> None:
        """Ends the wait of a caller who was cancelled."""
        if not waiter.cancelled():
            # Woken and cancelled in the same step: the slot goes to the next.
            self.release()

    def release(self) -> None:
        """Hands the slot to whoever has waited longest, else frees it."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1
