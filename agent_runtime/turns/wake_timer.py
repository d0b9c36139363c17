"""Keeps the one timer of a part where its agents first want to be woken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ecumene.client import EcumeneError, FencedError

from agent_runtime.actions.outbox import Outbox
from agent_runtime.turns.part_wakes import PartWakes

logger = logging.getLogger("ecumene.runtime")

RETRY_S = 1.0


class WakeTimer:
    """Sets it anew when it has fired, or when somebody wants to be woken earlier. One too early does no harm."""

    def __init__(self, wakes: PartWakes, outbox: Outbox) -> None:
        self._wakes = wakes
        self._outbox = outbox
        self._set_ns: int | None = None
        self._is_setting = False
        self.on_set: Callable[[], None] | None = None
        """Called when it is about to be set, and when it has been, or could not be."""

    @property
    def is_idle(self) -> bool:
        """Whether the world knows when somebody is to be woken next."""
        return not self._is_setting and self.is_told

    @property
    def is_told(self) -> bool:
        """The same, or it will know by an op that has been issued."""
        next_ns = self._wakes.next_ns
        return next_ns is None or (self._set_ns is not None and self._set_ns <= next_ns)

    def note_fired(self) -> None:
        """It has fired: perhaps one of an earlier setting, which is as good as none."""
        self._set_ns = None
        self._wakes.has_changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wakes.has_changed.wait()
            self._wakes.has_changed.clear()
            # Who was woken in this step, and decides in the next, may have sent by then what it wants.
            await asyncio.sleep(0)
            next_ns = self._wakes.next_ns
            if next_ns is None or (self._set_ns is not None and self._set_ns <= next_ns):
                continue
            # Before the answer: it may fire, and be told, before that comes.
            self._set_ns = next_ns
            self._tell()
            if not await self._set(next_ns):
                self._set_ns = None
                await asyncio.sleep(RETRY_S)
                self._wakes.has_changed.set()

    async def _set(self, at_ns: int) -> bool:
        self._is_setting = True
        try:
            await self._wakes.book.set_timer(at_ns)
        except FencedError as error:
            await self._outbox.lose(error)
        except EcumeneError as error:
            logger.warning("the timer of %s was not set: %s", self._wakes.book.path, error)
            return False
        finally:
            self._is_setting = False
            self._tell()
        return True

    def _tell(self) -> None:
        if self.on_set is not None:
            self.on_set()
