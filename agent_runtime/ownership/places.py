"""Where runs keep their books in their world.

/runtime/nodes                        members, one a node, under its lease
/runtime/runs/<run>                   what the run is: `ownership.runs` for one launch, `node.records` for nodes
/runtime/runs/<run>/parts             one entry an owned part, under its worker's lease
/runtime/runs/<run>/cursors           how far each part has come
/runtime/runs/<run>/agents            what agents remember
/runtime/runs/<run>/spent             what its models have cost
/runtime/runs/<run>/wakes/<part>      when its agents want to be woken: one entry an agent, of groups that have a clock

and of runs on nodes only:

/runtime/runs/<run>/placed            one entry a part: the node that is to host it; changed by compare and set
/runtime/runs/<run>/ended             one entry a part that nobody is to host any more: why
/runtime/runs/<run>/population        chunks of populations: <group>.<number>, each a piece of an Arrow IPC stream
/runtime/runs/<run>/muted             one entry a muted agent
/runtime/runs/<run>/interventions     notes of what was done from outside
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from ecumene.client import World
from ecumene.client.waking import RUNS, cursors_path, parts_path, wakes_path

RUNTIME = "/runtime"
NODES = "/runtime/nodes"


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
        return parts_path(self.run)

    @property
    def cursors(self) -> str:
        """How far each part has come."""
        return cursors_path(self.run)

    @property
    def agents(self) -> str:
        """What agents remember."""
        return f"{self.path}/agents"

    @property
    def spent(self) -> str:
        """What its models have cost."""
        return f"{self.path}/spent"

    @property
    def wakes(self) -> str:
        """When its agents want to be woken."""
        return wakes_path(self.run)

    @property
    def placed(self) -> str:
        """Where its parts are to be hosted."""
        return f"{self.path}/placed"

    @property
    def ended(self) -> str:
        """Parts that were given up."""
        return f"{self.path}/ended"

    @property
    def population(self) -> str:
        """Who its agents are."""
        return f"{self.path}/population"

    @property
    def muted(self) -> str:
        """Who takes no turns."""
        return f"{self.path}/muted"

    @property
    def interventions(self) -> str:
        """What was done from outside."""
        return f"{self.path}/interventions"


async def make_places(world: World, places: RunPlaces) -> None:
    """Make what every run needs, and is not there. Raises EcumeneError."""
    paths = (RUNTIME, RUNS, places.path, places.parts, places.cursors, places.agents, places.spent)
    await register_all(world, paths)


async def make_node_places(world: World, places: RunPlaces) -> None:
    """Make what a run on nodes needs besides. Raises EcumeneError."""
    await make_places(world, places)
    await register_all(world, (places.placed, places.ended, places.population, places.muted, places.interventions))


async def register_all(world: World, paths: Iterable[str]) -> None:
    """Make environments that are not there, parents first. Raises EcumeneError."""
    # Issued in one step, so they travel together and take effect in this order.
    await asyncio.gather(*(world.environment(path).register(if_absent=True) for path in paths))
