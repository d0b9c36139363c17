"""Slots: how many behaviour operations may run at a time, in the whole world and in one environment."""

from collections import deque
from collections.abc import Callable


class Slots:
    """Counts running operations. Those that find no slot wait; what may start is handed to `ready`."""

    def __init__(self, total: int, ready: Callable[[Callable[[], None]], None]) -> None:
        self._free = total
        self._ready = ready
        self._running: dict[int, int] = {}
        self._waiting: deque[tuple[int, int, Callable[[], None]]] = deque()

    def take(self, environment: int, maximum: int, start: Callable[[], None]) -> bool:
        """Takes a slot. True: the caller goes on; False: `start` is handed to `ready` when there is one.

        `maximum` bounds the operations of this environment; 0 = only the world's bound counts.
        """
        if self._fits(environment, maximum):
            self._enter(environment)
            return True
        self._waiting.append((environment, maximum, start))
        return False

    @property
    def waiting(self) -> int:
        """Operations that wait for a slot."""
        return len(self._waiting)

    def try_withdraw(self, start: Callable[[], None]) -> bool:
        """Lets the operation wait no longer; may decline, when it does not wait."""
        for position, (_, _, waiting) in enumerate(self._waiting):
            if waiting == start:
                del self._waiting[position]
                return True
        return False

    def give_back(self, environment: int) -> None:
        """Frees a slot and gives it to the first that waits and fits."""
        self._free += 1
        running = self._running[environment] - 1
        if running:
            self._running[environment] = running
        else:
            del self._running[environment]
        for position, (waiting, maximum, start) in enumerate(self._waiting):
            if self._fits(waiting, maximum):
                del self._waiting[position]
                self._enter(waiting)
                self._ready(start)
                return

    def _fits(self, environment: int, maximum: int) -> bool:
        return self._free > 0 and (not maximum or self._running.get(environment, 0) < maximum)

    def _enter(self, environment: int) -> None:
        self._free -= 1
        self._running[environment] = self._running.get(environment, 0) + 1
