"""Who sits in whose place: turns that wait go to the person, and what the person decides goes back."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_runtime.model.refusals import NodeError, Refusal

TURNS_WAITING_MAX = 1024


class TakenSeat:
    """One person's. `told`: what its worker says of it; `gone` is set when the agent does not live here any more."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.told: asyncio.Queue[dict[str, Any]] = asyncio.Queue(TURNS_WAITING_MAX)
        self.gone = asyncio.Event()

    async def wait_gone(self) -> None:
        """Until the agent does not live here any more."""
        await self.gone.wait()


class Seats:
    """The seats of one node that are taken, each with what it has yet to be told."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], TakenSeat] = {}

    def take(self, run: str, agent: str, timeout_s: float) -> TakenSeat:
        """Take a seat.

        Raises:
            NodeError: SEAT_TAKEN.
        """
        if (run, agent) in self._taken:
            raise NodeError(
                Refusal.SEAT_TAKEN, f"somebody sits in the place of {agent!r} already", run=run, agent=agent
            )
        seat = self._taken[run, agent] = TakenSeat(timeout_s)
        return seat

    def leave(self, run: str, agent: str) -> None:
        """Give it back."""
        self._taken.pop((run, agent), None)

    def list_taken(self, run: str) -> dict[str, TakenSeat]:
        """Those of a run, by agent."""
        return {agent: seat for (taken_run, agent), seat in self._taken.items() if taken_run == run}

    def tell(self, run: str, told: dict[str, Any]) -> None:
        """A worker speaks of a seat's turn. Nobody there, or too much unread: the turn falls back by its time-out."""
        seat = self._taken.get((run, str(told.get("seat"))))
        if seat is not None:
            try:
                seat.told.put_nowait(told)
            except asyncio.QueueFull:
                pass
