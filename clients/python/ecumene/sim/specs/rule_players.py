"""Rule players of the guess game and what they take, wherever a spec names one: as agents, answers, fallbacks."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from ecumene.sim.specs.section import Section


def check_rule_player(field: str, given: Mapping[str, Any]) -> None:
    """Raises ValueError: what a field holds names no rule player with its parameters."""
    player = given.get("player")
    if not isinstance(player, str) or player not in RULE_PARAMETERS:
        raise ValueError(f"{field} names a player: {', '.join(RULE_PARAMETERS)}, not {player!r}")
    try:
        RULE_PARAMETERS[player].model_validate({name: value for name, value in given.items() if name != "player"})
    except ValidationError as error:
        found = place_under(field, error, RULE_PARAMETERS[player])
        raise ValidationError.from_exception_data("RulePlayer", found) from error


def place_under(field: str, error: ValidationError, section: type[Section]) -> list[InitErrorDetails]:
    """The errors of what a field holds, a `section`, with their place; an unknown parameter is told the known ones."""
    return [
        InitErrorDetails(
            type=PydanticCustomError(
                "parameter", "{problem}", {"problem": _describe(found, sorted(section.model_fields))}
            ),
            loc=(field, *found["loc"]),
            input=found["input"],
        )
        for found in error.errors(include_url=False)
    ]


def _describe(found: Any, known: Sequence[str]) -> str:
    if found["type"] != "extra_forbidden":
        return "is missing" if found["type"] == "missing" else str(found["msg"])
    if len(found["loc"]) > 1:
        return "unknown parameter"
    near = difflib.get_close_matches(str(found["loc"][0]), known, n=1)
    told = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}" if known else "it takes none"
    return f"unknown parameter; {told}"


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
