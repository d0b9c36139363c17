"""What is played in the rounds of a run, and where."""

from __future__ import annotations

from dataclasses import dataclass

from ecumene.sim.specs.game import GAME_PATH

REPORTS_PATH = f"{GAME_PATH}/reports"
REPORT_ACTION = "report"
"""Under which a number is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsPlan:
    """How many rounds there are, and for how many agents."""

    rounds: int
    participants: int
    deadline_ms: int = 0
    """A round ends so long after its opening even if reports are missing; 0 = it waits for all."""
    path: str = GAME_PATH
    """Of the environment whose rounds are played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GamePlan(RoundsPlan):
    """The guess game. The target of a round is `ratio` × mean + `offset`."""

    ratio: float
    offset: float = 0.0
    groups: tuple[str, ...] = ()
    """Those who play where groups do; none = every agent plays for itself."""
