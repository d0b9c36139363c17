"""Rule players of the guess game and what they take, wherever a spec names one: as agents, answers, fallbacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from ecumene.sim.specs.section import Section


def check_rule_player(field: str, given: Mapping[str, Any]) -> None:
    """Raises ValueError: what a field holds names no rule player with its parameters."""
    player = given.get("player")
    if player not in RULE_PARAMETERS:
        raise ValueError(f"{field} names a player: {', '.join(RULE_PARAMETERS)}, not {player!r}")
    try:
        RULE_PARAMETERS[player].model_validate({name: value for name, value in given.items() if name != "player"})
    except ValidationError as error:
        raise ValidationError.from_exception_data("RulePlayer", place_under(field, error)) from error


def place_under(field: str, error: ValidationError) -> list[InitErrorDetails]:
    """The errors of what a field holds, with their place; an unknown one is told the known ones by its message."""
    return [
        InitErrorDetails(
            type=PydanticCustomError("parameter", "{problem}", {"problem": _describe(found)}),
            loc=(field, *found["loc"]),
            input=found["input"],
        )
        for found in error.errors(include_url=False)
    ]


def _describe(found: Any) -> str:
    return {"missing": "is missing", "extra_forbidden": "unknown parameter"}.get(found["type"], found["msg"])


class NoParameters(Section):
    """For `equilibrium` and `random`."""


class LevelKParameters(Section):
    """For `level-k`: the steps of best response."""

    level: Annotated[int, Field(ge=0, le=1_000)]


class NoisyLevelKParameters(LevelKParameters):
    """For `noisy-level-k`: and the standard deviation of the noise, in the units of the numbers."""

    deviation: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ListedParameters(Section):
    """For `listed`: the number of each round, the last one for all beyond."""

    numbers: Annotated[tuple[Annotated[float, Field(ge=0, le=100)], ...], Field(min_length=1, max_length=1_000)]


RULE_PARAMETERS: dict[str, type[Section]] = {
    "level-k": LevelKParameters,
    "noisy-level-k": NoisyLevelKParameters,
    "equilibrium": NoParameters,
    "listed": ListedParameters,
    "random": NoParameters,
}
"""Name of a rule player -> its parameters."""
