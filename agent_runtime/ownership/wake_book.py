"""What the world keeps of the wakes of a part: one entry an agent that has asked for any, and one timer.

The entry is written in the op of the turn that asks, so that it stands or falls with it. The timer stands on the clock
by which the group lives, at the earliest of all times of the part: it fires in the world's one order, as an event that
is replayed like any other, and needs to be set once for everybody who is to be woken then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from ecumene.client import Value, World
from ecumene.client.waking import name_timer

from agent_runtime.model.actions import Remembered
from agent_runtime.model.wakes import Wakes, write_wakes
from agent_runtime.ownership.places import RunPlaces, register_all

PAGE_ENTRIES = 4_096


class WakeBook:
    """Of one part, written behind its fence."""

    def __init__(self, world: World, fenced: World, run: str, part: str, clock: str) -> None:
        """`clock`: path of an environment that lives by the clock of the group."""
        self._places = RunPlaces(run)
        self.path = f"{self._places.wakes}/{part}"
        self.clock_path = clock
        self.timer_name = name_timer(run, part)
        self._world = world
        self._fenced = fenced

    async def open(self) -> None:
        """Make its place. Raises EcumeneError; EnvironmentNotFoundError, ClockNotFoundError: the group has no clock."""
        await self._world.environment(self.clock_path).clock().state()
        await register_all(self._world, (self._places.wakes,))
        # Whoever lets the clock go without the run's runtime finds the timer by it.
        await self._world.environment(self.path).register(config={"clock": self.clock_path}, if_absent=True)

    async def read(self) -> AsyncIterator[tuple[str, Value, int]]:
        """Agents, their documents, and the revisions that these are of. Raises EcumeneError."""
        async for entry in self._world.environment(self.path).entries(page_size=PAGE_ENTRIES):
            yield entry.key, entry.value, entry.modify_revision

    def note(self, agent: str, wakes: Wakes, woke_ns: int | None) -> Remembered:
        """What goes into the op of a turn."""
        document = write_wakes(wakes, woke_ns)
        return Remembered(self.path, agent, document, document)

    async def keep(self, agent: str, document: Value, cause: str) -> None:
        """Keep it by itself, where the turn's own op failed. Raises EcumeneError."""
        await self._fenced.environment(self.path).set(agent, document, cause=cause)

    async def set_timer(self, at_ns: int) -> None:
        """Have the part told when it is time. Raises EcumeneError."""
        await self._fenced.environment(self.clock_path).set_timer(self.timer_name, at_ns=at_ns)
