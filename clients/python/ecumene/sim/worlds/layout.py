"""Makes the environments of a spec, once a run: what is there already stays as it is.

each environment: itself and those above it ─► its entries ─► an entry for each agent ─► its clock, paused

An event-driven clock gets a child `participants` for those who take part in it, and stands until the experiment lets it
go on: agents that live by it have to be there first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ecumene.client.clocks import Clock
from ecumene.client.environment import Environment
from ecumene.client.model import Json
from ecumene.client.reasons import KindNotFoundError
from ecumene.client.spaces import Geo, Grid, Plane, Space
from ecumene.client.world import World
from ecumene.sim.populations.networks import build_networks
from ecumene.sim.populations.population import Population
from ecumene.sim.rounds.errors import ExperimentError
from ecumene.sim.specs.spaces import SpaceSpec
from ecumene.sim.specs.spec import RunSpec
from ecumene.sim.specs.world import PARTICIPANTS, ClockSpec, EachAgentSpec, EnvironmentSpec
from ecumene.sim.worlds.places import make_above
from ecumene.sim.worlds.placing import draw_places, place_on_nodes

MARK_NAME = ".world-made"
"""In the run's directory, once its world is made: what agents have changed since then is not made anew."""


async def make_world(world: World, spec: RunSpec, population: Population, directory: Path) -> None:
    """Make what the spec names, unless this run has done so.

    Raises:
        ExperimentError: an environment of another kind is there, a kind is not installed, a grid is too small.
        EcumeneError: the world refused something else. OSError: the disk.
    """
    mark = directory / MARK_NAME
    if spec.world is None or mark.exists():
        return
    maker = _Maker(world, spec, population)
    for environment in spec.world.environments:
        await maker.make(environment)
    mark.touch()


async def start_clocks(world: World, spec: RunSpec) -> None:
    """Let the event-driven clocks go on that are not the experiment's own: everybody who lives by them is there now.

    Raises EcumeneError.
    """
    own = spec.experiment.clock if spec.experiment is not None else None
    for environment in spec.world.environments if spec.world is not None else ():
        clock = environment.clock
        if clock is not None and clock.mode == "event_driven" and environment.path != own:
            await world.environment(environment.path).clock().resume()


class _Maker:
    def __init__(self, world: World, spec: RunSpec, population: Population) -> None:
        self._world = world
        self._spec = spec
        self._population = population

    async def make(self, wanted: EnvironmentSpec) -> None:
        place = self._world.environment(wanted.path)
        space = self._make_space(wanted.space)
        await make_above(self._world, wanted.path)
        try:
            made = await place.register(kind=wanted.kind or "", config=wanted.config, space=space, if_absent=True)
        except KindNotFoundError as error:
            raise ExperimentError(
                wanted.path,
                f"the server knows no kind {wanted.kind}",
                "name its class in world.behaviours, or, with --server, when that is started: --behaviour module:Class",
            ) from error
        if not made.changed:
            found = await place.describe()
            if found.kind != (wanted.kind or found.kind):
                raise ExperimentError(wanted.path, f"is there already, of kind {found.kind}, not {wanted.kind}")
        await self._make_entries(place, wanted, space)
        if wanted.clock is not None:
            await self._make_clock(place, wanted.clock)

    async def _make_entries(self, place: Environment, wanted: EnvironmentSpec, space: Space | None) -> None:
        for entry in wanted.entries:
            await place.create(entry.key, entry.value, position=entry.position, if_absent=True)
        each = wanted.each_agent
        if each is None:
            return
        rows = self._choose_rows(each)
        names = self._population.name_rows(rows).to_pylist()
        positions: Any = None
        if each.position == "node":
            positions = place_on_nodes(rows)
        elif each.position == "random":
            assert space is not None
            taken = [entry.position for entry in wanted.entries if entry.position is not None]
            positions = draw_places(space, wanted.path, rows, self._spec.seed, taken)
        values = self._choose_values(each, rows)
        (await place.create_many(names, values, positions, if_absent=True)).raise_failure()

    def _choose_rows(self, each: EachAgentSpec) -> np.ndarray:
        groups = self._population.groups
        wanted = [place for place, group in enumerate(groups) if not each.groups or group.name in each.groups]
        rows: np.ndarray = np.flatnonzero(np.isin(self._population.codes, wanted))
        return rows

    def _choose_values(self, each: EachAgentSpec, rows: np.ndarray) -> list[Json]:
        if each.attribute is None:
            return [each.value] * len(rows)
        assert self._population.profiles is not None
        values: list[Json] = self._population.profiles.column(each.attribute).take(rows).to_pylist()
        return values

    def _make_space(self, wanted: SpaceSpec | None) -> Space | None:
        if wanted is None:
            return None
        if wanted.grid is not None:
            return Grid(**wanted.grid.model_dump())
        if wanted.plane is not None:
            return Plane(**wanted.plane.model_dump())
        if wanted.network is None:
            return Geo()
        named = {wanted.network: self._spec.population.networks[wanted.network]}
        return build_networks(named, self._population, self._spec.people_seed)[wanted.network].to_space()

    async def _make_clock(self, place: Environment, wanted: ClockSpec) -> None:
        if (await place.describe()).clock is not None:
            return
        if wanted.mode == "event_driven":
            participants = place.child(PARTICIPANTS)
            await participants.register(if_absent=True)
            clock = Clock.event_driven(
                wanted.start, participants_path=participants.path, paused=True, lookahead_ns=wanted.lookahead
            )
        elif wanted.mode == "manual":
            clock = Clock.manual(wanted.start, lookahead_ns=wanted.lookahead)
        else:
            clock = Clock.realtime(wanted.rate, start_ns=wanted.start, lookahead_ns=wanted.lookahead)
        await place.change(clock=clock)
