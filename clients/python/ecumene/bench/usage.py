"""What processes use while something is measured: CPU of each, and the most memory of all together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Self

from ecumene.bench.processes import read_anonymous_bytes, read_cpu_s

SAMPLE_INTERVAL_S = 0.1


class UsageMeter:
    """Async context manager around what is measured; `roles` gives the processes of each part."""

    def __init__(self, roles: Mapping[str, Sequence[int]]) -> None:
        self._roles = {role: list(pids) for role, pids in roles.items()}
        self._sampling: asyncio.Task[None] | None = None
        self._begin_s = self._read_cpu_s()
        self.peak_bytes = 0
        """Memory that no file backs, of all processes together, at its most (sampled every 0.1 s)."""

    async def __aenter__(self) -> Self:
        self._begin_s = self._read_cpu_s()
        self._sampling = asyncio.create_task(self._sample(), name="sample memory")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._sampling is not None
        self._sampling.cancel()
        await asyncio.gather(self._sampling, return_exceptions=True)
        self._look()

    def cpu_s(self) -> dict[str, float]:
        """User and system time of each role since the begin, in seconds. The processes must still live."""
        return {role: now - self._begin_s[role] for role, now in self._read_cpu_s().items()}

    async def _sample(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(SAMPLE_INTERVAL_S)

    def _look(self) -> None:
        total = sum(read_anonymous_bytes(pid) for pids in self._roles.values() for pid in pids)
        self.peak_bytes = max(self.peak_bytes, total)

    def _read_cpu_s(self) -> dict[str, float]:
        return {role: sum(map(read_cpu_s, pids)) for role, pids in self._roles.items()}
