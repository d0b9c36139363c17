"""What methods wait for, so that those that wait in a circle are told instead of waiting for ever.

A method waits for a call on an actor, and for all calls that this one needs. That actor runs one call at a time: when
it waits itself, the first one waits for what it waits for. A wait that has lasted a while is followed along these
edges; where they lead back to its own actor, the awaited call is given up with CIRCULAR_WAIT.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from ecumene.workflows.background import Background
from ecumene.workflows.calls import Call
from ecumene.workflows.errors import CircularWaitError, Failure
from ecumene.workflows.runs import Run
from ecumene.workflows.threads import Threads


class Elsewhere(Protocol):
    """Knows of waits on other hosts."""

    async def look(self, flow: str, actor: str, needed: frozenset[str]) -> bool:
        """Whether the actors that one waits for wait for it. What it waits for is known to others from now on."""

    async def forget(self, flow: str, actor: str) -> None:
        """It does not wait any more."""


class Wait:
    """One wait of one method."""

    __slots__ = ("call", "is_told", "run", "timer")

    def __init__(self, run: Run, call: Call) -> None:
        self.run = run
        self.call = call
        self.timer: asyncio.TimerHandle | None = None
        self.is_told = False
        """Other hosts can know of it."""


class WaitTable:
    """The waits of all methods on one stage. Lives in its loop; `begin` and `end` also come from threads."""

    def __init__(self, threads: Threads, check_s: float, elsewhere: Elsewhere | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = threads
        self._check_s = check_s
        self._elsewhere = elsewhere
        self._waits: dict[str, set[Wait]] = {}
        # One that fails has found no circle.
        self._checks = Background(lambda error: None)

    def __len__(self) -> int:
        return sum(map(len, self._waits.values()))

    def begin(self, run: Run, call: Call) -> object:
        """A method waits from now on.

        Raises:
            WaitLimitError: too many do.
        """
        wait = Wait(run, call)
        if run.is_blocking:
            self._threads.begin_wait(run)
            self._loop.call_soon_threadsafe(self._add, wait)
        else:
            self._add(wait)
        return wait

    def end(self, run: Run, token: object) -> None:
        """It waits no longer."""
        assert isinstance(token, Wait)
        if run.is_blocking:
            self._threads.end_wait()
            self._loop.call_soon_threadsafe(self._remove, token)
        else:
            self._remove(token)

    async def close(self) -> None:
        """End what is under way."""
        for waits in self._waits.values():
            for wait in waits:
                if wait.timer is not None:
                    wait.timer.cancel()
        await self._checks.close()

    def _add(self, wait: Wait) -> None:
        self._waits.setdefault(wait.run.actor, set()).add(wait)
        wait.timer = self._loop.call_later(self._check_s, self._check, wait)

    def _remove(self, wait: Wait) -> None:
        if wait.timer is not None:
            wait.timer.cancel()
        waits = self._waits.get(wait.run.actor)
        if waits is not None:
            waits.discard(wait)
            if not waits:
                del self._waits[wait.run.actor]
                if wait.is_told and self._elsewhere is not None:
                    self._checks.begin(self._elsewhere.forget(wait.call.caller.flow, wait.run.actor), "wait that ended")

    def _check(self, wait: Wait) -> None:
        actor, needed = wait.run.actor, find_needed(wait.call)
        if self._leads_to(actor, needed):
            self._give_up(wait)
        elif self._elsewhere is not None:
            wait.is_told = True
            self._checks.begin(self._look(wait, needed, self._elsewhere), f"circle of {actor}")

    async def _look(self, wait: Wait, needed: frozenset[str], elsewhere: Elsewhere) -> None:
        if await elsewhere.look(wait.call.caller.flow, wait.run.actor, needed):
            self._give_up(wait)

    def _leads_to(self, actor: str, needed: Iterable[str]) -> bool:
        seen: set[str] = set()
        left = list(needed)
        while left:
            next_actor = left.pop()
            if next_actor == actor:
                return True
            if next_actor not in seen:
                seen.add(next_actor)
                for wait in self._waits.get(next_actor, ()):
                    left += find_needed(wait.call)
        return False

    def _give_up(self, wait: Wait) -> None:
        if wait not in self._waits.get(wait.run.actor, ()) or wait.call.is_done:
            return
        text = f"{wait.run.actor} would wait for itself: {wait.call} needs an actor that waits for it"
        wait.call.caller.give_up(wait.call, Failure(CircularWaitError.code, text))


def find_needed(call: Call) -> frozenset[str]:
    """Actors that must run something before a call can be done: its own, and those of calls among its arguments."""
    found: set[str] = set()
    seen: set[int] = set()
    left = [call]
    while left:
        needed = left.pop()
        if not needed.is_done and needed.number not in seen:
            seen.add(needed.number)
            found.add(needed.target.actor)
            left += [placeholder._call for placeholder in needed.pins]
    return frozenset(found)
