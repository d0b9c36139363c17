"""The guess game: what of it a spec decides, and by which names its world knows it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ecumene.sim.specs.numbers import RealNumber
from ecumene.sim.specs.section import Section

GAME_KIND = "guess_game"
GAME_PATH = "/game"
GAME_FIGURES = ("mean", "winning_number", "reported")
"""Of a round, those on which something may depend."""


class GameSpec(Section):
    """The guess game: nearest to ratio × mean + offset wins.

    Attributes:
        ratio: positive; a number or a fraction such as "2/3".
        offset: added to ratio × mean; in the units of the numbers.
        rounds: how many.
        deadline_s: a round ends at the latest this many seconds after it began; of one that a resumed run goes on
            with, after it is gone on with.
        players: `agents`, each for itself; or `groups`: the number of a group of the population is the mean of its
            members' numbers, the mean of a round that of the groups, and the nearest group wins.
        guests: whether others than the agents may play; the first round waits for so many of them. None = nobody else.
    """

    ratio: Annotated[RealNumber, Field(gt=0)] = 2 / 3
    offset: RealNumber = 0.0
    rounds: Annotated[int, Field(ge=1, le=1_000)] = 5
    deadline_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 60.0
    players: Literal["agents", "groups"] = "agents"
    guests: Annotated[int, Field(ge=0, le=10_000)] | None = None

    @model_validator(mode="after")
    def _check_guests(self) -> Self:
        if self.players == "groups" and self.guests is not None:
            raise ValueError("guests belong to no group: they play where players are agents")
        return self
