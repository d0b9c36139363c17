"""The real clock: an asyncio event loop and the system's time."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from env_server.model.ports import Handle

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
"""Of Linux: another one each time that the machine starts, as its monotonic clock does."""


class LoopClock:
    """See ports.Clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        try:
            self._origin = _BOOT_ID.read_text(encoding="ascii").strip()
        except OSError:
            self._origin = ""

    def monotonic_ns(self) -> int:
        """See Clock."""
        return time.monotonic_ns()

    def origin(self) -> str:
        """See Clock: the start of the machine."""
        return self._origin

    def wall_ns(self) -> int:
        """See Clock."""
        return time.time_ns()

    def call_soon(self, call: Callable[[], None]) -> None:
        """See Clock."""
        self._loop.call_soon(call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Handle:
        """See Clock."""
        return self._loop.call_later(delay_s, call)
