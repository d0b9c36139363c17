"""Threads for methods that are plain functions: so many compute at a time, and those that wait do not count.

One that was told that it took too long does not count either: as long as it hangs, it is one of those that wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ecumene.workflows.errors import WaitLimitError
from ecumene.workflows.limits import StageLimits
from ecumene.workflows.runs import Run


class Threads:
    """Runs functions beside a loop. Used in the loop, but for `begin_wait` and `end_wait`."""

    def __init__(self, limits: StageLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(limits.blocking_running_max)
        self._waiting_max = limits.blocking_waiting_max
        self._waiting = 0
        self._counting = threading.Lock()
        self._executor = ThreadPoolExecutor(
            limits.blocking_running_max + limits.blocking_waiting_max, thread_name_prefix="ecumene actor"
        )

    async def start(self, run: Run, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Begin a function when there is a slot; the future is done when it has returned."""
        await self._slots.acquire()
        run.holds_slot = True
        # Never while the slot is held: it is given back when the function returns, whoever waits for that.
        context = contextvars.copy_context()
        future = self._loop.run_in_executor(self._executor, context.run, _run_to_end, function)
        future.add_done_callback(lambda _: self._give_back(run))
        return future

    def begin_wait(self, run: Run) -> None:
        """The function of a run is about to wait, in its thread: its slot is for others.

        Raises:
            WaitLimitError: as many wait as may.
        """
        if not self._try_count():
            raise WaitLimitError(f"{self._waiting} methods wait already; blocking_waiting_max is {self._waiting_max}")
        self._loop.call_soon_threadsafe(self._give_back, run)

    def end_wait(self) -> None:
        """It goes on; it gets no slot again, so that nobody can be kept from going on."""
        with self._counting:
            self._waiting -= 1

    def leave(self, run: Run, future: asyncio.Future[Any]) -> None:
        """Nobody waits any longer for the function of a run: its slot is for others, unless as many wait as may."""
        if run.holds_slot and self._try_count():
            self._give_back(run)
            future.add_done_callback(lambda _: self.end_wait())

    def close(self) -> None:
        """Begin no more; functions that run are left to their end."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _try_count(self) -> bool:
        """Count one more that waits, if it may."""
        with self._counting:
            may_wait = self._waiting < self._waiting_max
            self._waiting += may_wait
        return may_wait

    def _give_back(self, run: Run) -> None:
        if run.holds_slot:
            run.holds_slot = False
            self._slots.release()


def _run_to_end(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except (StopIteration, GeneratorExit) as error:
        # No future takes the one, and a coroutine would take the other for its own end.
        raise RuntimeError(f"it raised {type(error).__name__}") from error
