"""What ends a run before its last round."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from ecumene.sim.specs.interventions import ConditionSpec
from ecumene.sim.specs.numbers import RealNumber
from ecumene.sim.specs.section import Section


class ConvergedSpec(Section):
    """The means have come to rest.

    Attributes:
        rounds: how many of the last.
        within: the largest and the smallest of their means differ by no more than this, in the units of the numbers.
    """

    rounds: Annotated[int, Field(ge=2, le=1_000)] = 3
    within: Annotated[RealNumber, Field(ge=0)]


class StopSpec(Section):
    """What ends a run before its last round, looked at when a round is over. A run that is ended so is done.

    Attributes:
        mean_below: the mean of the round is below this, in the units of the numbers.
        mean_above: likewise, above.
        converged: the means of some rounds lie close together.
        wall_s: the rounds have taken longer than this together, over all lives of the run; none is cut short.
        failed_share_above: more than this share of the round's turns failed or are missing, from 0 to 1.
        when: a figure of the round is so.
    """

    mean_below: RealNumber | None = None
    mean_above: RealNumber | None = None
    converged: ConvergedSpec | None = None
    wall_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    failed_share_above: Annotated[float, Field(ge=0, lt=1)] | None = None
    when: ConditionSpec | None = None

    @model_validator(mode="after")
    def _check_any(self) -> Self:
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise ValueError("give at least one condition, or leave stop out")
        if self.when is not None and self.when.figure is None:
            raise ValueError("when is about a figure of the round, no entry; an experiment's figures may be entries")
        return self
