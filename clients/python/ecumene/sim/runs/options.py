"""How a run is executed, as opposed to what is run, and who is told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from ecumene.sim.rounds.plans import RoundsPlan
from ecumene.sim.rounds.results import RoundObserver


class RunObserver(RoundObserver, Protocol):
    """Is told how a run goes, in its loop; must not block."""

    def stage_began(self, stage: str) -> None:
        """What is being done now, in a few words."""

    def directory_chosen(self, directory: Path) -> None:
        """The run has its directory: from now on it can be gone on with."""

    def run_began(self, run: str, directory: Path, plan: RoundsPlan, rounds_done: int) -> None:
        """The agents are there, and the next round follows; so many were played in earlier lives of the run."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run, as opposed to what.

    Attributes:
        server: address of a server to use; None = one of the run's own, with its data in the run's directory; of a run
            that is gone on with, the one that it had.
        server_arguments: further arguments of the run's own server.
        workers: processes of the runtime; None = by the number of agents.
        over_nodes: the agents live on the nodes of the world; only with a server that is given.
        budgets: of a run that is gone on with: limit (`tokens_max`, `microdollars_max`) -> whose (`run`, or a model's
            name) -> the new maximum.
        name: of a new run, and of its directory, which holds no other; "" = the spec's name and the time.
        now: the time of day.
    """

    server: str | None = None
    server_arguments: Sequence[str] = ()
    workers: int | None = None
    over_nodes: bool = False
    budgets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    name: str = ""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
