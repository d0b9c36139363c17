"""Who knows whom: social networks of a population."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ecumene.sim.specs.attributes import AttributeName
from ecumene.sim.specs.section import FilePath, Section

_KINDS = ("small_world", "scale_free", "homophily", "household", "file")
Part = Annotated[float, Field(ge=0, le=1)]


class SmallWorldSpec(Section):
    """A ring whose edges are partly rewired (Watts and Strogatz 1998): short ways, and friends who are friends.

    Attributes:
        neighbours: of each on the ring, half of them on each side; an even number.
        rewired: the share of edges that lead somewhere else instead.
    """

    neighbours: Annotated[int, Field(ge=2, le=1_000, multiple_of=2)]
    rewired: Part = 0.1


class ScaleFreeSpec(Section):
    """Newcomers know those whom many know (Barabási and Albert 1999): few have very many neighbours.

    Attributes:
        edges: of each newcomer.
    """

    edges: Annotated[int, Field(ge=1, le=1_000)]


class HomophilySpec(Section):
    """People know people like themselves.

    Attributes:
        by: the attributes in which those who are alike agree.
        alike: the share of edges that are drawn among those who are alike; the others are drawn among all.
        neighbours: of each, on average.
    """

    by: Annotated[tuple[AttributeName, ...], Field(min_length=1)]
    alike: Part
    neighbours: Annotated[float, Field(gt=0, le=1_000)]


class NetworkSpec(Section):
    """One network; exactly one of its fields is given.

    Attributes:
        small_world: short ways, and circles of friends.
        scale_free: few who know many.
        homophily: by what people have in common.
        household: true: all who live together know each other, and nobody else.
        file: its edges, CSV or Parquet with columns `from` and `to`, of ids of agents or of their places from 0.
    """

    small_world: SmallWorldSpec | None = None
    scale_free: ScaleFreeSpec | None = None
    homophily: HomophilySpec | None = None
    household: Literal[True] | None = None
    file: FilePath | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(given) != 1:
            found = f"there are {', '.join(given)}" if given else "there is none"
            raise ValueError(f"give exactly one of {', '.join(_KINDS)}; {found}")
        return self
