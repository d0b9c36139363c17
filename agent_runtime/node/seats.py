"""Who sits in whose place: turns that wait go to the person, and what the person decides goes back."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_runtime.model.refusals import NodeError, Refusal

TURNS_WAITING_MAX = 1024


class Seats:
    """The seats of one node that are taken, each with what it has yet to be told."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], asyncio.Queue[dict[str, Any]]] = {}

    def take(self, run: str, agent: str) -> asyncio.Queue[dict[str, Any]]:
        """Take a seat; what its worker says of it comes through the queue.

        Raises:
            NodeError: SEAT_TAKEN.
        """
        if (run, agent) in self._taken:
            raise NodeError(
                Refusal.SEAT_TAKEN, f"somebody sits in the place of {agent!r} already", run=run, agent=agent
            )
        queue = self._taken[run, agent] = asyncio.Queue(TURNS_WAITING_MAX)
        return queue

    def leave(self, run: str, agent: str) -> None:
        """Give it back."""
        self._taken.pop((run, agent), None)

    def tell(self, run: str, told: dict[str, Any]) -> None:
        """A worker speaks of a seat's turn. Nobody there, or too much unread: the turn falls back by its time-out."""
        queue = self._taken.get((run, str(told.get("seat"))))
        if queue is not None:
            try:
                queue.put_nowait(told)
            except asyncio.QueueFull:
                pass
