"""The timers of one environment that wait on one clock, in the order in which they are due."""

from heapq import heapify, heappop, heappush
from typing import Final

from env_server.model.timelines import Timer

_STALE_MIN: Final = 64
"""Places of timers that were set anew or cancelled stay in the queue until so many, and half of all, are such."""


class TimerQueue:
    """They come and go as one thing with their environment, however many they are."""

    __slots__ = ("_queue", "by_name")

    def __init__(self) -> None:
        self.by_name: dict[str, Timer] = {}
        self._queue: list[tuple[int, int, str]] = []

    def __len__(self) -> int:
        return len(self.by_name)

    def put(self, timer: Timer) -> None:
        """A timer waits, in the place of one of this name."""
        self.by_name[timer.name] = timer
        heappush(self._queue, (timer.due_ns, timer.order, timer.name))
        if len(self._queue) > _STALE_MIN + 2 * len(self.by_name):
            self._queue = [(one.due_ns, one.order, one.name) for one in self.by_name.values()]
            heapify(self._queue)

    def drop(self, name: str) -> Timer:
        """A timer waits no more."""
        return self.by_name.pop(name)

    @property
    def first(self) -> Timer | None:
        """The timer that is due first."""
        queue, by_name = self._queue, self.by_name
        while queue:
            due_ns, order, name = queue[0]
            timer = by_name.get(name)
            if timer is not None and timer.due_ns == due_ns and timer.order == order:
                return timer
            heappop(queue)
        return None

    @property
    def containers(self) -> list[dict[str, Timer] | list[tuple[int, int, str]]]:
        """What it holds, for whoever lets go of it in slices."""
        return [self.by_name, self._queue]
