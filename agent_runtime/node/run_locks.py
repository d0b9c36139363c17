"""One lock a run: launches, takeovers, stops and clean-ups of the same run follow one another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RunLocks:
    """Locks by name; one is kept only while somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @property
    def names(self) -> frozenset[str]:
        """Runs to which something is being done."""
        return frozenset(self._locks)

    @asynccontextmanager
    async def hold(self, run: str) -> AsyncIterator[None]:
        """Hold the lock of a run."""
        lock = self._locks.setdefault(run, asyncio.Lock())
        self._users[run] = self._users.get(run, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[run] -= 1
            if not self._users[run]:
                del self._users[run], self._locks[run]

    def is_held(self, run: str) -> bool:
        """Whether something is being done to a run."""
        return run in self._locks
