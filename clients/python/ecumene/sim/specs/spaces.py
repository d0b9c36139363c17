"""Where the entries of an environment may be: the space that a spec gives it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ecumene.sim.specs.section import Section

Finite = Annotated[float, Field(allow_inf_nan=False)]
Side = Annotated[int, Field(ge=1, le=1_000_000)]
Position = Annotated[tuple[Finite, ...], Field(min_length=1, max_length=2)]
"""(column, row), (x, y), (longitude, latitude), or (node,)."""


class GridSpec(Section):
    """Cells in columns and rows.

    Attributes:
        width: columns, numbered from 0.
        height: rows, numbered from 0.
        neighbourhood: how steps are counted: `moore` also across corners, `von_neumann` across edges only, `hex` to six
            neighbours.
        torus: whether the last column is next to the first one, and the last row to the first one.
        capacity: entries that a cell may hold; 0 = any number.
    """

    width: Side
    height: Side
    neighbourhood: Literal["moore", "von_neumann", "hex"] = "moore"
    torus: bool = False
    capacity: Annotated[int, Field(ge=0)] = 0


class PlaneSpec(Section):
    """Points within bounds; distances are Euclidean.

    Attributes:
        x_min, y_min: the lower bounds.
        x_max, y_max: the upper bounds.
        torus: whether the upper bounds are the lower ones again.
    """

    x_min: Finite = 0.0
    y_min: Finite = 0.0
    x_max: Finite
    y_max: Finite
    torus: bool = False

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.x_min >= self.x_max or self.y_min >= self.y_max:
            raise ValueError("the lower bounds are not below the upper ones")
        return self


class SpaceSpec(Section):
    """A space: one of these.

    Attributes:
        grid: cells.
        plane: points.
        geo: `true`: the earth, places are longitude and latitude in degrees, distances metres.
        network: the name of a network of the population, as a graph whose nodes are the agents, in their order.
    """

    grid: GridSpec | None = None
    plane: PlaneSpec | None = None
    geo: Literal[True] | None = None
    network: str | None = None

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        given = (self.grid, self.plane, self.geo, self.network)
        if len([one for one in given if one is not None]) != 1:
            raise ValueError("give one of grid, plane, geo and network")
        return self

    @property
    def axes(self) -> int:
        """Coordinates of a position."""
        return 1 if self.network is not None else 2
