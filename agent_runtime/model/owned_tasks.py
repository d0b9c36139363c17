"""Tasks that somebody owns: a failure of any is the owner's, and none outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class OwnedTasks:
    """Tasks of one owner on one loop.

    `failure` is done with the first exception that a task ended with; the others go on until
    `cancel_all`. Cancelling one of them is not a failure.
    """

    def __init__(self, failure: asyncio.Future[None] | None = None) -> None:
        """`failure`: shared with other owners, whose it then is to cancel."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._shares_failure = failure is not None
        self.failure: asyncio.Future[None] = self._loop.create_future() if failure is None else failure

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` as a task."""
        task = self._loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    async def wait_all(self, timeout_s: float) -> bool:
        """Wait until no task is left; False if some are after `timeout_s`. New ones are waited for as well."""
        deadline_s = self._loop.time() + timeout_s
        while self._tasks:
            left_s = deadline_s - self._loop.time()
            if left_s <= 0:
                return False
            await asyncio.wait(self._tasks, timeout=left_s)
        return True

    async def cancel_all(self) -> None:
        """Cancel what is left and wait until all is gone."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        if not self.failure.done() and not self._shares_failure:
            self.failure.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None and not self.failure.done():
            self.failure.set_exception(error)
            # Whoever stops without asking again has not missed it: the first asker raised it.
            self.failure.exception()
