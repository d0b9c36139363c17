"""Where agents stand in a space at the beginning: it follows from the seed, the environment and the agent alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ecumene.client.spaces import Geo, Grid, Plane, Space
from ecumene.sim.populations.streams import Numbers, draw_uniform, rank
from ecumene.sim.rounds.errors import ExperimentError

Places = list[tuple[float, ...]]


def place_on_nodes(rows: Numbers) -> Places:
    """Each agent on its own node of a network."""
    return [(float(row),) for row in rows]


def draw_places(space: Space, path: str, rows: Numbers, seed: int, taken: Iterable[tuple[float, ...]] = ()) -> Places:
    """A random place for each agent (by its row in the population), `taken` being the places of other entries.

    Uniform: over the cells of a grid, where there is room if they have a capacity; over a plane; over the surface of
    the earth. Raises ExperimentError: the grid is too small.
    """
    if isinstance(space, Grid):
        return _draw_cells(space, path, rows, seed, taken)
    first, second = (draw_uniform(seed, f"{path}/{axis}", rows) for axis in ("x", "y"))
    if isinstance(space, Plane):
        x = space.x_min + first * (space.x_max - space.x_min)
        y = space.y_min + second * (space.y_max - space.y_min)
    else:
        assert isinstance(space, Geo)
        x, y = first * 360.0 - 180.0, np.degrees(np.arcsin(2.0 * second - 1.0))
    return list(zip(x.tolist(), y.tolist(), strict=True))


def _draw_cells(grid: Grid, path: str, rows: Numbers, seed: int, taken: Iterable[tuple[float, ...]]) -> Places:
    cells = grid.width * grid.height
    if not grid.capacity:
        chosen = (draw_uniform(seed, f"{path}/cell", rows) * cells).astype(np.int64)
    else:
        room = np.full(cells, grid.capacity, dtype=np.int64)
        for column, row in taken:
            room[int(row) * grid.width + int(column)] -= 1
        free = np.repeat(np.arange(cells), np.maximum(0, room))
        if len(free) < len(rows):
            raise ExperimentError(path, f"its grid has room for {len(free):,} more, not for {len(rows):,} agents")
        chosen = free[np.argsort(rank(seed, f"{path}/cell", np.arange(len(free))), kind="stable")[: len(rows)]]
    return [(float(cell % grid.width), float(cell // grid.width)) for cell in chosen.tolist()]
