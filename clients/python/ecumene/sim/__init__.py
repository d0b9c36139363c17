"""Populations, experiments, recordings and reports."""

from ecumene.sim.conductor import Conductor, GamePlan, RoundObserver, RoundResult
from ecumene.sim.run_life import RunObserver, RunOptions, run
from ecumene.sim.run_results import RunOutcome
from ecumene.sim.spec import RunSpec, load_spec, parse_spec
from ecumene.sim.spec_errors import SpecError

__all__ = [
    "Conductor",
    "GamePlan",
    "RoundObserver",
    "RoundResult",
    "RunObserver",
    "RunOptions",
    "RunOutcome",
    "RunSpec",
    "SpecError",
    "load_spec",
    "parse_spec",
    "run",
]
