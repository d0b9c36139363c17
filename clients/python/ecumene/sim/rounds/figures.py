"""Reads the figures of an experiment in its world, when a round is over."""

from __future__ import annotations

from collections.abc import Mapping

from ecumene.client.model import Json, Value
from ecumene.client.reasons import EntryNotFoundError, EnvironmentNotFoundError
from ecumene.client.world import World
from ecumene.sim.specs.experiment import FigureSpec


async def read_figures(world: World, figures: Mapping[str, FigureSpec]) -> dict[str, Json]:
    """Name -> what it is now; None where there is nothing. Raises EcumeneError."""
    return {name: await _read(world, figure) for name, figure in figures.items()}


async def _read(world: World, figure: FigureSpec) -> Json:
    place = world.environment(figure.path)
    try:
        if figure.operation is not None:
            return await place.invoke(figure.operation, **figure.arguments)
        if figure.aggregate is not None:
            found = (await place.aggregates()).values.get(figure.aggregate)
            return None if found is None else _as_json(found.value)
        return _as_json(await place.value(figure.key or ""))
    except (EntryNotFoundError, EnvironmentNotFoundError):
        return None


def _as_json(value: Value) -> Json:
    return value.hex() if isinstance(value, bytes) else value
