"""The time limit of many calls on one timer: a timer of its own costs each call 5 µs and 400 bytes."""

from __future__ import annotations

import asyncio
from typing import Any, Self


class CallTimers:
    """Cancels the task of a call that lasts `timeout_s` seconds, at most 2 % late.

    All calls have the same limit, so the oldest is the first to end. Belongs to one event loop.
    """

    __slots__ = ("_late_s", "_loop", "_out", "_timeout_s", "_timer")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._late_s = timeout_s / 50
        self._loop: asyncio.AbstractEventLoop | None = None
        self._out: dict[CallTimer, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timer: CallTimer) -> None:
        """Begins the time of a call of the current task."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None, "calls are made in tasks"
        timer.task = task
        timer.cancelling = task.cancelling()
        timer.started_s = loop.time()
        self._out[timer] = None
        if self._timer is None:
            self._timer = loop.call_later(self._timeout_s, self._end_due)

    def stop(self, timer: CallTimer) -> None:
        """The call has ended."""
        self._out.pop(timer, None)

    def close(self) -> None:
        """No timer any more; calls that are out have no limit."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_due(self) -> None:
        assert self._loop is not None
        self._timer = None
        due_s = self._loop.time() - self._timeout_s
        due = []
        for timer in self._out:
            if timer.started_s > due_s:
                delay_s = max(self._late_s, timer.started_s - due_s)
                self._timer = self._loop.call_later(delay_s, self._end_due)
                break
            due.append(timer)
        for timer in due:
            del self._out[timer]
            timer.end()


class CallTimer:
    """The time of one call, for a `with` around it. Raises TimeoutError in place of the cancellation that it caused."""

    __slots__ = ("_is_over", "_timers", "cancelling", "started_s", "task")

    def __init__(self, timers: CallTimers) -> None:
        self._timers = timers
        self._is_over = False
        self.task: asyncio.Task[Any]
        self.cancelling: int
        self.started_s: float

    def end(self) -> None:
        """The time is over."""
        self._is_over = True
        self.task.cancel()

    def __enter__(self) -> Self:
        self._timers.start(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._timers.stop(self)
        if self._is_over and self.task.uncancel() <= self.cancelling and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error
