"""Tasks of one owner, who is told when one fails: nobody waits for what a dead task was to bring."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

logger = logging.getLogger("ecumene.workflows")


class Background:
    """Tasks in one loop. `on_failure` is called in it with whatever a task did not catch itself: a defect."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run something as a task."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    async def close(self) -> None:
        """Cancel what is left, and wait until it is gone; of the task that asks for it nothing is cancelled."""
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("a defect ended the task %r", task.get_name(), exc_info=error)
            self._on_failure(error)
