"""Turns of wakes whose ops are all on their way: as good as ended, but that their agents are not free yet."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

from agent_runtime.model.wakes import NEVER_NS


class SentTurns:
    """Of one part, in packs that are sent together. Used in the worker's loop only."""

    def __init__(self, on_sent: Callable[[], None]) -> None:
        """`on_sent` is called whenever turns have sent all that they do."""
        self._on_sent = on_sent
        self._packs: dict[int, tuple[int, int]] = {}
        """By number: how many turns, and the first time that they want next."""
        self._numbers = itertools.count()
        self._has_settled = asyncio.Event()

    def __len__(self) -> int:
        return sum(turns for turns, _ in self._packs.values())

    @property
    def first_ns(self) -> int:
        """The first time that any of them wants next; NEVER_NS = none does."""
        return min((first_ns for _, first_ns in self._packs.values()), default=NEVER_NS)

    def add(self, times: Sequence[int]) -> int:
        """They have sent all that they do, and want to be woken next at these times; NEVER_NS = not at all.

        Returns what `settle` takes when they have ended.
        """
        number = next(self._numbers)
        self._packs[number] = (len(times), min(times))
        self._on_sent()
        return number

    def settle(self, number: int) -> None:
        """They have ended, and their agents are free: call it in the step that says so."""
        del self._packs[number]
        self._has_settled.set()

    async def wait_due(self, now_ns: int) -> None:
        """Wait until none of them may be due again at a time: its agents could not be woken yet."""
        while self.first_ns <= now_ns:
            self._has_settled.clear()
            await self._has_settled.wait()
