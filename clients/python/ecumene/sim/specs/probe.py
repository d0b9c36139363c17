"""What `ecumene probe` asks a few of each group before a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ecumene.sim.specs.asking import QUESTIONS_MAX, QuestionSpec
from ecumene.sim.specs.section import Section


class ProbeSpec(Section):
    """How `ecumene probe` tries how well a model holds the roles of a population.

    Attributes:
        per_category: how many agents of each group are asked.
        questions: asked instead of the package's own; answers of type `text` are compared between groups, and one of
            type `integer` called `age` with the age that a persona tells.
    """

    per_category: Annotated[int, Field(ge=1, le=100)] = 3
    questions: Annotated[tuple[QuestionSpec, ...], Field(max_length=QUESTIONS_MAX)] = ()
