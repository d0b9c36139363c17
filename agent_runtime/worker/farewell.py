"""How long whoever stops waits for the world: one bound for all that is asked of it, less for one that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

AWAY_S_MAX = 2.0
"""A world may come back so late: its server is started anew. What it has not taken then is done again from the cursors,
and what is owned ends with its lease."""
LOOK_S = 0.02

Done = TypeVar("Done")


class Farewell:
    """The last wait for the world, entered with `async with`; all that is done in it shares its bound.

    async with Farewell(lambda: world.statistics().is_connected, timeout_s) as farewell:
        await farewell.wait(lease.revoke())
    """

    def __init__(self, is_there: Callable[[], bool], timeout_s: float) -> None:
        """It is over after `timeout_s`, or when the world has not been there for AWAY_S_MAX."""
        self._is_there = is_there
        self._timeout_s = timeout_s
        self._ending: asyncio.Task[None]

    @property
    def is_over(self) -> bool:
        """Whether nothing is waited for any more."""
        return self._ending.done()

    async def wait(self, work: Coroutine[Any, Any, Done]) -> Done:
        """Let something be done; it is cancelled when the farewell is over, however far it came.

        Raises what it raises; TimeoutError: it was cancelled so.
        """
        task = asyncio.create_task(work, name="part of a farewell")
        try:
            await asyncio.wait({task, self._ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if is_cut := not task.done():
                task.cancel()
                await asyncio.wait({task})
        if is_cut and task.cancelled():
            raise TimeoutError("the world did not answer in time")
        return task.result()

    async def wait_until(self, holds: Callable[[], bool]) -> bool:
        """Whether something held before the farewell was over."""
        while not (holds() or self.is_over):  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(LOOK_S)
        return holds()

    async def __aenter__(self) -> Self:
        self._ending = asyncio.create_task(self._end(), name="farewell")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.cancel()
        await asyncio.wait({self._ending})

    async def _end(self) -> None:
        now_s = asyncio.get_running_loop().time
        seen_s = begun_s = now_s()
        while now_s() < begun_s + self._timeout_s and now_s() < seen_s + AWAY_S_MAX:
            if self._is_there():
                seen_s = now_s()
            await asyncio.sleep(LOOK_S)
