"""The real clock: an asyncio event loop and the system's time."""

import asyncio
import time
from collections.abc import Callable

from env_server.model.ports import Handle


class LoopClock:
    """See ports.Clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def monotonic_ns(self) -> int:
        """See Clock."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """See Clock."""
        return time.time_ns()

    def call_soon(self, call: Callable[[], None]) -> None:
        """See Clock."""
        self._loop.call_soon(call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Handle:
        """See Clock."""
        return self._loop.call_later(delay_s, call)
