"""The worlds that are open: a bounded number at a time. The one idle longest makes room for another."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from env_server.model.errors import Exhausted, Reason
from env_server.open_world import OpenWorld

_PAUSE_S: Final = 0.005
_PAUSES_MAX: Final = 400
"""How often somebody looks again for a world that can be closed, while there are such that are busy for a moment."""


class OpenWorlds:
    """Open worlds by name. `close` closes one that is idle, so that it can be opened again."""

    def __init__(self, maximum: int, kept: str, close: Callable[[OpenWorld], Coroutine[None, None, None]]) -> None:
        """The world `kept` is never closed to make room. `close` is called at once, what it returns runs in a task."""
        self._maximum = maximum
        self._kept = kept
        self._close = close
        self._worlds: dict[str, OpenWorld] = {}
        #: Worlds that are about to be open have a place already.
        self._coming = 0
        self._leaving: dict[str, asyncio.Task[None]] = {}
        #: By name: how many wait for the world to open, and have not had it yet.
        self._wanted: Counter[str] = Counter()
        self._uses = 0

    def __len__(self) -> int:
        return len(self._worlds)

    def __contains__(self, name: str) -> bool:
        return name in self._worlds

    def find(self, name: str) -> OpenWorld | None:
        """The open world of that name, which is now the last one used."""
        known = self._worlds.get(name)
        if known is not None:
            self._uses += 1
            known.last_use = self._uses
        return known

    def list(self) -> list[OpenWorld]:
        """All, in no order."""
        return list(self._worlds.values())

    def add(self, opened: OpenWorld) -> None:
        """A world is open; it has got a place before."""
        self._worlds[opened.world.name] = opened
        self.find(opened.world.name)

    def remove(self, name: str) -> OpenWorld:
        """The world is gone; the caller closes it."""
        return self._worlds.pop(name)

    @contextmanager
    def wanted(self, name: str) -> Iterator[None]:
        """While somebody waits for the world to open: it is not closed again before he has had it."""
        self._wanted[name] += 1
        try:
            yield
        finally:
            self._wanted[name] -= 1
            if not self._wanted[name]:
                del self._wanted[name]

    def is_leaving(self, name: str) -> bool:
        """Whether the world is being closed."""
        return name in self._leaving

    async def wait_until_left(self, name: str) -> None:
        """Returns when the world is not being closed (any more)."""
        if name in self._leaving:
            await asyncio.wait([self._leaving[name]])

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place for one more world; add that inside. Another one may have to be closed before.

        Raises:
            Exhausted: WORLD_QUOTA: none of those that are open can be closed.
        """
        await self._make_room()
        self._coming += 1
        try:
            yield
        finally:
            self._coming -= 1

    async def settle(self) -> None:
        """Returns when no world is being closed."""
        while self._leaving:
            await asyncio.wait(list(self._leaving.values()))

    async def _make_room(self) -> None:
        pauses = 0
        while len(self._worlds) + len(self._leaving) + self._coming >= self._maximum:
            idle = self._find_idle()
            if idle is not None:
                await asyncio.shield(self._leave(idle))
            elif self._leaving:
                await asyncio.wait(list(self._leaving.values()), return_when=asyncio.FIRST_COMPLETED)
            elif pauses < _PAUSES_MAX and (self._coming or self._any_that_may_go()):
                pauses += 1
                await asyncio.sleep(_PAUSE_S)
            else:
                problem = f"{self._maximum} worlds are open, as many as may be, and something lives in each"
                raise Exhausted.of(Reason.WORLD_QUOTA, "worlds_open_max", self._maximum, problem)

    def _find_idle(self) -> OpenWorld | None:
        """The one idle longest of those in which nothing is under way or goes on by itself."""
        for known in sorted(self._worlds.values(), key=lambda one: one.last_use):
            if known.world.is_at_rest and self._may_go(known):
                return known
        return None

    def _any_that_may_go(self) -> bool:
        return any(self._may_go(known) or self._wanted[known.world.name] for known in self._worlds.values())

    def _may_go(self, known: OpenWorld) -> bool:
        name = known.world.name
        return name != self._kept and name not in self._wanted and not known.world.must_stay

    def _leave(self, known: OpenWorld) -> "asyncio.Task[None]":
        name = known.world.name
        del self._worlds[name]
        task = asyncio.get_running_loop().create_task(self._let_leave(name, self._close(known)), name=f"closing {name}")
        self._leaving[name] = task
        return task

    async def _let_leave(self, name: str, closing: Coroutine[None, None, None]) -> None:
        try:
            await closing
        finally:
            del self._leaving[name]
