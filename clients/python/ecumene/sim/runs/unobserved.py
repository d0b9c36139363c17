"""An observer for whoever wants to know only what a run came to."""

from __future__ import annotations

from pathlib import Path

from ecumene.sim.rounds.plans import RoundsPlan
from ecumene.sim.rounds.results import RoundResult


class Unobserved:
    """Takes no notice of anything. Whoever wants some of it overrides that."""

    def stage_began(self, stage: str) -> None:
        """Nothing."""

    def directory_chosen(self, directory: Path) -> None:
        """Nothing."""

    def run_began(self, run: str, directory: Path, plan: RoundsPlan, rounds_done: int) -> None:
        """Nothing."""

    def round_opened(self, round_number: int) -> None:
        """Nothing."""

    def reports_counted(self, round_number: int, reported: int) -> None:
        """Nothing."""

    def round_closed(self, result: RoundResult) -> None:
        """Nothing."""
