"""Threads for blocking code of agents: so many run at a time, and those that hang keep nobody else out.

Threads of their own: those of the loop write records and read caches, and whoever hangs in them would stop a worker.
They end with the process, whatever they do.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from agent_runtime.model.slots import Slots

RUNNING_MAX = 32
LATE_MAX = 224
"""Functions that go on although their turns have ended; beyond that they count among those that run."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Run:
    future: asyncio.Future[Any]
    is_late: bool = False


class AgentThreads:
    """Of one worker. Used on its loop."""

    def __init__(self, running_max: int = RUNNING_MAX, late_max: int = LATE_MAX) -> None:
        self._room = Slots(running_max)
        self._late_max = late_max
        self.late = 0
        """Functions that nobody waits for any more."""

    async def run(self, function: Callable[[], T]) -> T:
        """What a function returns or raises, once there is room for it. Cancelled, it goes on, and its room is free."""
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        run = _Run(loop.create_future())
        context = contextvars.copy_context()

        def work() -> None:
            value, error = None, None
            try:
                value = context.run(function)
            except BaseException as raised:  # noqa: BLE001 - the turn edge: whoever waits for it is told
                error = raised
            try:
                loop.call_soon_threadsafe(self._end, run, value, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits

        try:
            threading.Thread(target=work, name="agent's code", daemon=True).start()
        except RuntimeError:
            self._room.release()
            raise
        try:
            return cast(T, await run.future)
        finally:
            if run.future.cancelled() and self.late < self._late_max:
                run.is_late = True
                self.late += 1
                self._room.release()

    def _end(self, run: _Run, value: Any, error: BaseException | None) -> None:
        if run.is_late:
            self.late -= 1
        else:
            self._room.release()
        if run.future.done():
            return
        if isinstance(error, StopIteration | GeneratorExit):
            # No future takes the one, and a coroutine would take the other for its own end.
            error = RuntimeError(f"it raised {type(error).__name__}")
        if error is None:
            run.future.set_result(value)
        else:
            run.future.set_exception(error)
