"""Ops whose wait is over: they go on one after the other, never within the pass of a frame."""

from collections import deque
from collections.abc import Callable

from env_server.model.ports import Clock


class Ready:
    """What may go on. `after` is called when all of it has."""

    def __init__(self, clock: Clock, after: Callable[[], None]) -> None:
        self._clock = clock
        self._after = after
        self._starts: deque[Callable[[], None]] = deque()
        self._draining = self._passing = False

    def add(self, start: Callable[[], None]) -> None:
        """Its wait is over: it goes on in `drain`, which whoever freed it calls, or else the next loop step."""
        self._starts.append(start)
        if not (self._draining or self._passing):
            self._clock.call_soon(self.drain)

    def drain(self) -> None:
        """Lets all go on; not while a frame passes, whose revisions are in a row."""
        if self._draining or self._passing:
            return
        self._draining = True
        try:
            while self._starts:
                self._starts.popleft()()
        finally:
            self._draining = False
        self._after()

    def hold_back(self) -> None:
        """The pass of a frame begins: nothing goes on until `let_go`."""
        self._passing = True

    def let_go(self) -> None:
        """The pass has ended; whoever passed drains afterwards."""
        self._passing = False
