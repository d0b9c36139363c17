"""Clearing up: what deleted environments held is let go in slices, one a loop step, while others go on."""

from typing import Final

from env_server.model.ports import Clock
from env_server.state_tree.remains import Remains

_SLICE_ITEMS: Final = 2048
"""Let go in one step: less than half a millisecond."""


class Clearing:
    """Lets go of one tree's remains."""

    def __init__(self, remains: Remains, clock: Clock) -> None:
        self._remains = remains
        self._clock = clock
        self._is_under_way = False

    def look(self) -> None:
        """Begins when there is anything to let go of."""
        if self._remains and not self._is_under_way:
            self._is_under_way = True
            self._clock.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_under_way = False
        self._remains.let_go(_SLICE_ITEMS)
        self.look()
