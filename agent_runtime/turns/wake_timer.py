"""Keeps the one timer of a part where its agents first want to be woken."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ecumene.client import EcumeneError, FencedError

from agent_runtime.actions.outbox import Outbox
from agent_runtime.ownership.clock_place import NO_CLOCK
from agent_runtime.turns.part_wakes import PartWakes

logger = logging.getLogger("ecumene.runtime")

RETRY_S, GONE_RETRY_S = 1.0, 5.0


class WakeTimer:
    """Sets it anew when it has fired, or when somebody wants to be woken earlier. One too early does no harm.

    When its clock is deleted nobody is woken by time any more, which is told once if anybody wants to be, until there
    is one again; that one is joined again, also where nobody wants anything of it yet.
    """

    def __init__(self, wakes: PartWakes, outbox: Outbox, join_again: Callable[[], Awaitable[object]]) -> None:
        """`join_again` is called to look for a clock that was gone; raises EcumeneError: it is not there yet."""
        self._wakes = wakes
        self._outbox = outbox
        self._join_again = join_again
        self._set_ns: int | None = None
        self._is_clock_new = False
        self._told: type[EcumeneError] | None = None
        """Why it cannot be set, as the log says."""
        self.on_set: Callable[[], None] | None = None
        """Called when it is about to be set, and when it has been, or could not be."""

    @property
    def is_told(self) -> bool:
        """Whether the world knows when somebody is to be woken next, or will know by an op that has been issued."""
        next_ns = self._wakes.next_ns
        return next_ns is None or (self._set_ns is not None and self._set_ns <= next_ns)

    def note_fired(self) -> None:
        """It has fired: perhaps one of an earlier setting, which is as good as none."""
        self._set_ns = None
        self._wakes.has_changed.set()

    def note_gone(self) -> None:
        """Somebody has cancelled it, or deleted where it stood, perhaps with the clock."""
        self._is_clock_new = True
        self.note_fired()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wakes.has_changed.wait()
            self._wakes.has_changed.clear()
            # Who was woken in this step, and decides in the next, may have sent by then what it wants.
            await asyncio.sleep(0)
            next_ns = self._wakes.next_ns
            if self.is_told and not self._is_clock_new:
                continue
            # Before the answer: it may fire, and be told, before that comes.
            self._set_ns = next_ns
            self._note_set()
            if not await self._set(next_ns):
                self._set_ns = None
                await asyncio.sleep(GONE_RETRY_S if self._is_clock_new else RETRY_S)
                self._wakes.has_changed.set()

    async def _set(self, at_ns: int | None) -> bool:
        """Set it on the clock that is there, if anybody wants to be woken; whether that could be done."""
        try:
            if self._is_clock_new:
                await self._join_again()
            self._is_clock_new = False
            if at_ns is not None:
                await self._wakes.book.set_timer(at_ns)
        except FencedError as error:
            await self._outbox.lose(error)
        except EcumeneError as error:
            self._is_clock_new = self._is_clock_new or isinstance(error, NO_CLOCK)
            if at_ns is not None:
                self._tell(error)
            return False
        finally:
            self._note_set()
        if self._told is not None:
            self._told = None
            logger.warning("agents of %s are woken by time again", self._wakes.book.path)
        return True

    def _note_set(self) -> None:
        if self.on_set is not None:
            self.on_set()

    def _tell(self, error: EcumeneError) -> None:
        """Once, however often it is tried."""
        if self._told is type(error):
            return
        self._told = type(error)
        book = self._wakes.book
        if isinstance(error, NO_CLOCK):
            text = (
                "the clock by which agents of %s live is gone, so that none of them is woken by time: "
                "make %s again, with a clock, or end the run (%s)"
            )
            logger.error(text, book.path, book.clock_path, error)
            return
        logger.warning("the timer of %s was not set, and is tried again until it is: %s", book.path, error)
