"""Slots: how many behaviour operations may run at a time, in all worlds of a server and in one environment."""

from collections import deque
from collections.abc import Callable


class Pool:
    """The slots that all worlds of a server share. Worlds in which operations wait take turns."""

    def __init__(self, total: int) -> None:
        self._free = total
        self._waiting: dict[Slots, None] = {}

    @property
    def free(self) -> int:
        """Slots that nobody has."""
        return self._free

    def take(self) -> None:
        """Takes one of the free slots."""
        self._free -= 1

    def give_back(self) -> None:
        """Frees a slot and gives it to the first that waits and fits, in whichever world."""
        self._free += 1
        for slots in list(self._waiting):
            if slots.start_first():
                return

    def wait(self, slots: "Slots") -> None:
        """Operations of this world wait; it comes behind those where some wait already."""
        self._waiting[slots] = None

    def leave(self, slots: "Slots") -> None:
        """None of this world waits any more."""
        self._waiting.pop(slots, None)


class Slots:
    """Counts running operations of one world. Those that find no slot wait; what may start is handed to `ready`."""

    def __init__(
        self,
        pool: Pool,
        ready: Callable[[Callable[[], None]], None],
        maximum_of: Callable[[int], int] = lambda environment: 0,
    ) -> None:
        """`maximum_of` tells how many may run in an environment at a time; 0 = only the pool's bound counts."""
        self._pool = pool
        self._ready = ready
        self._maximum_of = maximum_of
        self._running: dict[int, int] = {}
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def take(self, environment: int, start: Callable[[], None]) -> bool:
        """Takes a slot. True: the caller goes on; False: `start` is handed to `ready` when there is one."""
        if self._fits(environment):
            self._enter(environment)
            return True
        self._waiting.append((environment, start))
        self._pool.wait(self)
        return False

    @property
    def waiting(self) -> int:
        """Operations that wait for a slot."""
        return len(self._waiting)

    def try_withdraw(self, start: Callable[[], None]) -> bool:
        """Lets the operation wait no longer; may decline, when it does not wait."""
        for position, (_, waiting) in enumerate(self._waiting):
            if waiting == start:
                self._take_out(position)
                return True
        return False

    def give_back(self, environment: int) -> None:
        """Frees a slot and gives it to the first that waits and fits."""
        running = self._running[environment] - 1
        if running:
            self._running[environment] = running
        else:
            del self._running[environment]
        self._pool.give_back()

    def start_first(self) -> bool:
        """Hands a slot to the first that waits and fits; the others then wait behind those of other worlds."""
        for position, (environment, start) in enumerate(self._waiting):
            if self._fits(environment):
                self._take_out(position)
                if self._waiting:
                    self._pool.leave(self)
                    self._pool.wait(self)
                self._enter(environment)
                self._ready(start)
                return True
        return False

    def end(self) -> None:
        """The world is gone: what waits never starts. What runs still gives its slot back."""
        self._waiting.clear()
        self._pool.leave(self)

    def _take_out(self, position: int) -> None:
        del self._waiting[position]
        if not self._waiting:
            self._pool.leave(self)

    def _fits(self, environment: int) -> bool:
        if not self._pool.free:
            return False
        maximum = self._maximum_of(environment)
        return not maximum or self._running.get(environment, 0) < maximum

    def _enter(self, environment: int) -> None:
        self._pool.take()
        self._running[environment] = self._running.get(environment, 0) + 1
