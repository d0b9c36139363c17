"""A host beside a node: started with it, started again when it ends by itself, stopped with it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from agent_runtime.model.clock import Clock
from agent_runtime.workflows.host_process import HostEndedError, HostProcess


@dataclass(frozen=True, slots=True)
class Restarts:
    """How often a host is started again, and after which waits."""

    restarts_max: int
    window_s: float
    backoff_first_s: float
    backoff_s_max: float


@asynccontextmanager
async def keep_host(
    process: HostProcess, restarts: Restarts, clock: Clock, log: Callable[[str], None]
) -> AsyncIterator[HostProcess]:
    """Have a host as long as the context is open; what becomes of it is told to `log`.

    Actors that were made with `retry` are made again on the next life of it or elsewhere, the others are lost with it.
    One that ends too often is given up, which is told, too.

    Raises:
        HostEndedError: it did not come to take calls the first time.
    """
    await process.start()
    keeping = asyncio.create_task(_keep(process, restarts, clock, log), name=f"keep workflow host {process.name}")
    try:
        yield process
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await process.stop()


async def _keep(process: HostProcess, restarts: Restarts, clock: Clock, log: Callable[[str], None]) -> None:
    ends: deque[float] = deque()
    while True:
        code = await process.wait_ended()
        problem = str(process.ended.get("reason") or f"exit code {code}")
        while True:
            now_s = clock.now_s()
            ends.append(now_s)
            while ends[0] < now_s - restarts.window_s:
                ends.popleft()
            if len(ends) > restarts.restarts_max:
                log(f"workflow host {process.name} is given up: it ended {len(ends)} times; at last: {problem}")
                return
            log(f"workflow host {process.name} ended and is started again: {problem}")
            await asyncio.sleep(min(restarts.backoff_s_max, restarts.backoff_first_s * 2 ** (len(ends) - 1)))
            try:
                await process.start()
                break
            except (HostEndedError, OSError) as error:
                problem = error.problem if isinstance(error, HostEndedError) else str(error)
