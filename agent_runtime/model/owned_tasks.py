"""Tasks that somebody owns: a failure of any is the owner's, and none outlives it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger("ecumene.runtime")

CANCEL_WAIT_S = 5.0
CANCEL_AGAIN_WAIT_S = 1.0


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
        """Cancel what is left and wait until all is gone.

        What goes on all the same is told once more, and left after some seconds: code of agents may swallow any
        cancellation, and must not hold up a part that is somebody else's.
        """
        for wait_s in (CANCEL_WAIT_S, CANCEL_AGAIN_WAIT_S):
            deadline_s = self._loop.time() + wait_s
            # Tasks that begin others as they end: those are told as well, each once.
            told: set[asyncio.Task[None]] = set()
            while self._tasks and (left_s := deadline_s - self._loop.time()) > 0:
                for task in self._tasks - told:
                    task.cancel()
                told |= self._tasks
                await asyncio.wait(self._tasks, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        if self._tasks:
            names = sorted(task.get_name() for task in self._tasks)
            logger.error("%s tasks take no notice of their end and are left: %s", len(names), ", ".join(names[:10]))
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
