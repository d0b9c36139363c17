"""How much waits on a stage, and whether it takes more: calls and their bytes, within its limits."""

from __future__ import annotations

import asyncio

from ecumene.workflows.calls import MAKE
from ecumene.workflows.limits import StageLimits
from ecumene.workflows.messages import Message


class StageLoad:
    """Of one stage."""

    def __init__(self, host: str, limits: StageLimits) -> None:
        self._host = host
        self._limits = limits
        self.waiting = 0
        """Calls taken and not finished."""
        self._waiting_bytes = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, message: Message) -> None:
        """A call has come."""
        self.waiting += 1
        self._waiting_bytes += message.size
        self._idle.clear()

    def forget(self, message: Message) -> None:
        """A call has ended."""
        self.waiting -= 1
        self._waiting_bytes -= message.size
        if not self.waiting:
            self._idle.set()

    def add_argument(self, message: Message, text: str) -> str:
        """What a call referred to has come; why there is no room for it, or ""."""
        bytes_max = self._limits.calls_bytes_max
        if self._waiting_bytes + len(text) > bytes_max:
            return (
                f"arguments of calls that wait on host {self._host} take more than calls_bytes_max, {bytes_max} bytes"
            )
        self._waiting_bytes += len(text)
        message.size += len(text)
        return ""

    def find_refusal(self, message: Message, actors: int, *, is_known: bool) -> str:
        """Why a call that has been added cannot be run, with so many actors here, its own among them or not."""
        limits = self._limits
        if self.waiting > limits.calls_waiting_max:
            return (
                f"{self.waiting - 1} calls wait on host {self._host}; calls_waiting_max is {limits.calls_waiting_max}"
            )
        if self._waiting_bytes > limits.calls_bytes_max:
            return (
                f"calls that wait on host {self._host} take more than calls_bytes_max, {limits.calls_bytes_max} bytes"
            )
        if message.do == MAKE:
            if actors >= limits.actors_max:
                return f"{actors} actors live on host {self._host}; actors_max is {limits.actors_max}"
            return f"actor {message.actor} lives on host {self._host} already" if is_known else ""
        return "" if is_known else f"actor {message.actor} does not live on host {self._host}"

    async def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no call is under way, at most so long; whether that is so."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except TimeoutError:
            return False
        return True
