"""Where a run keeps its books in its world."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ecumene.client import World

RUNTIME = "/runtime"
RUNS = "/runtime/runs"


@dataclass(frozen=True, slots=True)
class RunPlaces:
    """The environments of one run."""

    run: str

    @property
    def path(self) -> str:
        """The run itself."""
        return f"{RUNS}/{self.run}"

    @property
    def parts(self) -> str:
        """Who owns what."""
        return f"{self.path}/parts"

    @property
    def cursors(self) -> str:
        """How far each part has come."""
        return f"{self.path}/cursors"

    @property
    def agents(self) -> str:
        """What agents remember."""
        return f"{self.path}/agents"

    @property
    def spent(self) -> str:
        """What its models have cost."""
        return f"{self.path}/spent"


async def make_places(world: World, places: RunPlaces) -> None:
    """Make what of a run's environments is not there. Raises EcumeneError."""
    paths = (RUNTIME, RUNS, places.path, places.parts, places.cursors, places.agents, places.spent)
    # Issued in one step, so they travel together and take effect in this order.
    await asyncio.gather(*(world.environment(path).register(if_absent=True) for path in paths))
