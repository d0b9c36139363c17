"""Keeps what a worker's models cost in the book of the run, and tells when a budget is spent."""

from __future__ import annotations

import asyncio
import logging

from ecumene.client import EcumeneError

from agent_runtime.gateways.opened_models import OpenedModels
from agent_runtime.model.clock import Clock
from agent_runtime.ownership.spent_book import SpentBook

logger = logging.getLogger("ecumene.runtime")

WRITTEN_EVERY_S = 0.5
CALLS_ASKED_S = 0.02


class Spending:
    """The spending of one worker. Begun by `start` before any model is opened, ended by `stop` when all are closed."""

    def __init__(self, models: OpenedModels, book: SpentBook, clock: Clock, timeout_s: float) -> None:
        """`timeout_s`: how long the world may take for a write."""
        self._models = models
        self._book = book
        self._clock = clock
        self._timeout_s = timeout_s
        self._is_told = False
        self._is_ended = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read what the run had spent before. Raises EcumeneError."""
        self._models.spent_before = await self._book.read()
        self._keeping = asyncio.create_task(self._keep(), name="spent book")

    async def stop(self) -> None:
        """Write the last of it. May be called twice, and without a start."""
        self._is_ended.set()
        if self._keeping is not None:
            await self._keeping

    async def wait_calls(self, timeout_s: float) -> None:
        """Where a budget is spent: until no call is under way any more, so that what is paid for counts."""
        if not self._models.is_budget_spent:
            return
        deadline_s = self._clock.now_s() + timeout_s
        while self._models.in_flight and self._clock.now_s() < deadline_s:  # noqa: ASYNC110 - rare and short
            await asyncio.sleep(CALLS_ASKED_S)
        await asyncio.sleep(CALLS_ASKED_S)  # for what was answered last to be decided

    async def _keep(self) -> None:
        # Ended by an event and never cancelled: of a write that was cut short nobody knew whether it counts.
        while not self._is_ended.is_set():
            try:
                await asyncio.wait_for(self._is_ended.wait(), WRITTEN_EVERY_S)
            except TimeoutError:
                pass
            await self._write()

    async def _write(self) -> None:
        """What the world does not take now is written with the next."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._book.add(self._models.spent.by_model_and_phase())
                refusal = self._models.refusal
                if refusal is not None and not self._is_told:
                    await self._book.note_exhausted(refusal)
                    self._is_told = True
        except (EcumeneError, TimeoutError) as error:
            logger.warning("what was spent was not written: %s", error or "the world does not answer")
