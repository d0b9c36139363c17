"""What a sweep varies: values of fields, and replicates."""

from __future__ import annotations

import itertools
import json
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from ecumene.sim.specs.section import Section

RUNS_MAX = 100_000
Values = dict[str, Any]
FieldPath = Annotated[str, Field(pattern=r"^\w[\w-]*(\.\w[\w-]*|\[\d+\])*$")]


class SweepSpec(Section):
    """Several runs of one spec: a cell for each combination of values, and replicates of each cell.

    Attributes:
        grid: field -> its values, such as `game.ratio: [1/2, 2/3]`; each combination is a cell. Fields are named by
            their path; an item of a list by its place (`population.groups[0].count`) or by its name
            (`population.groups.a.count`).
        list: cells one by one, each a mapping of fields to values; with a grid, each is combined with all of its cells.
        replicates: runs of each cell, each with a seed of its own that follows from the spec's seed, the cell's values
            and the replicate's number.
        common_seeds: replicates of one number have one seed in all cells, so that cells differ by their values alone.
        parallel: runs at a time.
        fail_fast: the first run that fails ends the sweep; otherwise the others go on.
    """

    grid: dict[FieldPath, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(default_factory=dict)
    list: tuple[Annotated[dict[FieldPath, Any], Field(min_length=1)], ...] = ()
    replicates: Annotated[int, Field(ge=1, le=RUNS_MAX)] = 1
    common_seeds: bool = False
    parallel: Annotated[int, Field(ge=1, le=1_000)] = 1
    fail_fast: bool = False

    @model_validator(mode="after")
    def _check_cells(self) -> Self:
        if twice := sorted({path for cell in self.list for path in cell if path in self.grid}):
            raise ValueError(f"{twice[0]} stands in grid and in list")
        cells = max(1, len(self.list))
        for values in self.grid.values():
            cells *= len(values)
        if cells * self.replicates > RUNS_MAX:
            raise ValueError(f"these are {cells * self.replicates:,} runs, at most {RUNS_MAX:,} can be")
        keys = [name_cell(cell) for cell in self.list_cells()]
        if len(set(keys)) < len(keys):
            key = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(f"the cell {key} stands there twice; replicates: 2 runs it twice")
        return self

    def varies(self, field: str) -> bool:
        """Whether cells give a field."""
        return field in self.grid or any(field in cell for cell in self.list)

    def list_cells(self) -> tuple[Values, ...]:
        """The values of each cell, those of the list in the outer order, the last field of the grid in the inner."""
        combined = [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]
        return tuple(own | values for own in (self.list or ({},)) for values in combined)


def name_cell(values: Values) -> str:
    """A cell by its values: the same name in whatever order they are given, and whatever other cells there are."""
    return json.dumps(values, sort_keys=True, ensure_ascii=False, default=str)
