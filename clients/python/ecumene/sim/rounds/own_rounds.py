"""Conducts the rounds of any behaviour that offers `open_round` and `close_round`.

    open_round(participants, deadline_ms) -> {"generation", "reports", ...}     emits `round.opened` with the same
    close_round(generation)               -> any figures of the round

`reports` is the environment, at the behaviour's own or below it, whose gate opens when the round is over. What
`close_round` returns are the figures of the round; `reported` and `failed` among them count its turns, otherwise the
gate's reports do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ecumene.client.errors import InvalidArgumentError, NotFoundError
from ecumene.client.model import Invoked, Json
from ecumene.client.reasons import EnvironmentNotFoundError, OperationRefusedError
from ecumene.client.world import World
from ecumene.sim.rounds.conductor import Conductor
from ecumene.sim.rounds.errors import ExperimentError, RefusedRoundError
from ecumene.sim.rounds.figures import read_figures
from ecumene.sim.rounds.guests import GuestTurn
from ecumene.sim.rounds.plans import RoundsPlan
from ecumene.sim.rounds.results import COUNT, DEADLINE, RoundObserver, RoundResult, read_number
from ecumene.sim.specs.experiment import FigureSpec

OPERATIONS = ("open_round", "close_round")


class OwnRounds(Conductor):
    """Async context manager around the rounds of one environment, which is there already."""

    def __init__(
        self,
        world: World,
        plan: RoundsPlan,
        *,
        producer: str,
        observer: RoundObserver,
        figures: Mapping[str, FigureSpec],
    ) -> None:
        """`figures`: what is read in the world whenever a round is over. Else as `Conductor`."""
        super().__init__(world, plan, producer=producer, observer=observer)
        self._figures = figures
        self._round = 0
        self._reports = ""

    async def register_game(self) -> bool:
        """Make sure that the environment offers rounds: it is never made here. True: it is nobody else's game.

        Raises:
            ExperimentError: it does not.
            EcumeneError: the world could not be asked.
        """
        path = self._plan.path
        try:
            kind = (await self._game.describe()).kind
        except EnvironmentNotFoundError as error:
            raise ExperimentError(path, f"is not there in world {self._world.name}") from error
        offered = {one.name for one in (await self._world.describe_kind(kind)).operations}
        if missing := [name for name in OPERATIONS if name not in offered]:
            raise ExperimentError(path, f"its kind {kind} has no operation {missing[0]}, so no rounds can be played")
        return True

    async def play_round(self, round_number: int) -> RoundResult:
        """As `Conductor.play_round`, with the figures of the round."""
        self._round, self._reports = round_number, ""
        return await super().play_round(round_number)

    async def _invoke(self, operation: str, args: Mapping[str, Json], *, seq: int) -> Invoked:
        """As `Conductor._invoke`. Raises RefusedRoundError where asking again can change nothing."""
        try:
            return await super()._invoke(operation, args, seq=seq)
        except (InvalidArgumentError, NotFoundError, OperationRefusedError) as error:
            raise RefusedRoundError(self._plan.path, operation, error) from error

    def _read_opening(self, round_number: int, opened: Mapping[str, Any]) -> tuple[int, str]:
        own = self._plan.path
        generation, path = opened.get("generation"), opened.get("reports")
        if not isinstance(generation, int) or not isinstance(path, str):
            raise ExperimentError(own, "open_round returned no document with `generation` and `reports`")
        if path != own and not path.startswith(f"{own}/"):
            raise ExperimentError(own, f"open_round names {path} for reports, which is not below {own}")
        self._reports = path
        return generation, path

    async def _read_result(
        self, closing: Invoked, cause: str, wall_s: float, guests: Mapping[str, GuestTurn]
    ) -> RoundResult:
        closed = closing.result if isinstance(closing.result, dict) else {}
        told: dict[str, Json] = {**closed, **await read_figures(self._world, self._figures)}
        reported, failed = _count(closed, "reported"), _count(closed, "failed")
        if "reported" not in closed and self._reports:
            gates = (await self._world.environment(self._reports).aggregates()).gates.values()
            reported = sum(gate.reported for gate in gates)
        participants = self._plan.participants
        return RoundResult(
            round=self._round,
            generation=_count(closed, "generation"),
            participants=participants,
            reported=reported,
            failed=failed,
            mean=read_number(told.get("mean")),
            gate_cause=cause or (COUNT if reported + failed >= participants else DEADLINE),
            wall_s=wall_s,
            revision=closing.revision,
            figures=told,
        )


def _count(document: Mapping[str, Any], name: str) -> int:
    value = document.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
