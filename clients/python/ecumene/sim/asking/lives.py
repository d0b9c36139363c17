"""What whoever asks or intervenes has to know of the run, in one of its lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ecumene.client.environment import Environment
from ecumene.client.world import World
from ecumene.launch.node_runs import RUNS_PATH
from ecumene.sim.populations.population import Population

ACTOR = "experiment"
"""Who it is that reaches into a run, in the notes and events of its world."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLife:
    """One life of a run.

    Attributes:
        world: in which it lives.
        run, seed, directory: its own.
        population: its agents.
        tell: takes a line for people.
    """

    world: World
    run: str
    seed: int
    directory: Path
    population: Population
    tell: Callable[[str], None]

    @property
    def notes(self) -> Environment:
        """Where the world keeps what was done to the run, in any of its lives."""
        return self.world.environment(f"{RUNS_PATH}/{self.run}/interventions")


def count_agents(agents: int) -> str:
    """So many, in words."""
    return "1 agent" if agents == 1 else f"{agents:,} agents"
