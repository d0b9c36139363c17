"""What a prompted player answers. Reasoning and reported number stay apart."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from agent_runtime.agents.ready.game import HIGH, LOW

GuessedNumber = Annotated[float, Field(ge=LOW, le=HIGH, allow_inf_nan=False)]


class NumberAnswer(BaseModel):
    """A number in [0, 100], at once."""

    model_config = ConfigDict(frozen=True)

    number: GuessedNumber


class ReasonedAnswer(BaseModel):
    """Thoughts first, then the number: a model writes in this order and should decide last."""

    model_config = ConfigDict(frozen=True)

    reasoning: str
    number: GuessedNumber
