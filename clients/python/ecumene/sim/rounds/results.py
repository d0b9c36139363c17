"""How a round ended, and who is told of it while it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ecumene.client.model import Json
from ecumene.sim.rounds.guests import GuestTurn
from ecumene.sim.specs.game import GAME_FIGURES

COUNT, DEADLINE, TIME = "count", "deadline", "time"
"""Why a round ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """How a round ended, as the game told it."""

    round: int
    generation: int
    participants: int
    """Agents of the run, and guests that were there."""
    reported: int
    """Numbers that came in time: what the mean is of."""
    failed: int
    """Turns that reported in time that they have no number; they are not in the mean."""
    mean: float | None
    """Of the reported numbers, or of those of groups where they play; None if there is none."""
    target: float | None = None
    """Of the guess game, as what follows on its winner; None elsewhere, and if nobody reported."""
    winning_number: float | None = None
    """The target under the name by which the agents are told of it."""
    winner: str | None = None
    """Whose number is nearest, an agent or a group; of several the smallest id."""
    winner_number: float | None = None
    gate_cause: str
    """Why the round ended: count, deadline, or what else opened its gate."""
    wall_s: float
    """From the answer to the opening to the answer to the closing; of a round that was gone on with, since then."""
    revision: int
    """The closing's own."""
    guests: Mapping[str, GuestTurn] = field(default_factory=dict)
    """What became of those who are no agents of the run; they are among the participants."""
    groups: Mapping[str, float | None] = field(default_factory=dict)
    """Where groups play, the number of each; None of one without a number."""
    figures: Mapping[str, Json] = field(default_factory=dict)
    """Of an experiment of one's own: what its behaviour told, and what was read in the world."""

    def find_figure(self, name: str) -> float | None:
        """A figure of the round, if it is a number."""
        return read_number(self.figures.get(name, getattr(self, name) if name in GAME_FIGURES else None))

    @property
    def missing(self) -> int:
        """Participants of whom nothing came in time; none where nobody was asked for anything."""
        return 0 if self.gate_cause == TIME else max(0, self.participants - self.reported - self.failed)


class RoundObserver(Protocol):
    """Is told how the rounds go, in the conductor's loop; must not block."""

    def round_opened(self, round_number: int) -> None:
        """The agents may answer."""

    def reports_counted(self, round_number: int, reported: int) -> None:
        """So many reports are in; told a few times a second."""

    def round_closed(self, result: RoundResult) -> None:
        """The round is over."""


def read_number(value: object) -> float | None:
    """What a world tells, if it is a number; a truth is none."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
