"""Runs and sweeps for scripts and notebooks: blocking calls, otherwise like those of `ecumene.sim`.

    from ecumene.sim import sync

    outcome = sync.run({"name": "mine", "population": {"groups": [{"name": "a", "agent": "random", "count": 100}]}})
    print([round.mean for round in outcome.rounds])

An interrupt (Ctrl-C, a notebook's stop button) stops a run in order before it is raised.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from ecumene.sim.runs import life as runs
from ecumene.sim.sweeps import life as sweeps

__all__ = ["resume", "resume_sweep", "run", "run_sweep"]

Arguments = ParamSpec("Arguments")
Outcome = TypeVar("Outcome")


def _block(begin: Callable[Arguments, Coroutine[Any, Any, Outcome]]) -> Callable[Arguments, Outcome]:
    @functools.wraps(begin)
    def wait(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Outcome:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(begin(*args, **kwargs))
        return _InThread(begin(*args, **kwargs)).wait()  # a notebook's loop, which this call holds up

    return wait


class _InThread:
    """Runs a coroutine in a loop of its own, in a thread of its own."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[Any] | None = None
        self._error: BaseException | None = None
        self._outcome: Any = None

    def wait(self) -> Any:
        thread = threading.Thread(target=self._live, name="ecumene.sim")
        thread.start()
        try:
            thread.join()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(self._cancel)
            thread.join()
            raise
        if self._error is not None:
            raise self._error
        return self._outcome

    def _live(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                self._outcome = runner.run(self._hold())
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                self._error = error

    async def _hold(self) -> Any:
        self._task = asyncio.current_task()
        return await self._work

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


run = _block(runs.run)
resume = _block(runs.resume)
run_sweep = _block(sweeps.run_sweep)
resume_sweep = _block(sweeps.resume_sweep)
