"""Figures of one's own to compare a run with."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ecumene.sim.specs.numbers import RealNumber
from ecumene.sim.specs.section import Section


class ReferenceSpec(Section):
    """What others did in the same game, such as people in a laboratory; reports show it beside the run.

    Attributes:
        name: short, for legends and tables.
        source: where the figures come from.
        means: round -> mean of the numbers that were named in it, such as `{1: 36.7, 2: 24}`.
    """

    name: Annotated[str, Field(min_length=1, max_length=80)]
    source: Annotated[str, Field(max_length=500)] = ""
    means: Annotated[dict[Annotated[int, Field(ge=1, le=1_000)], RealNumber], Field(min_length=1, max_length=1_000)]
