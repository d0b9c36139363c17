"""Populations, experiments, recordings and reports."""

from ecumene.sim.conductor import Conductor, GamePlan, RoundObserver, RoundResult
from ecumene.sim.run_budgets import BudgetSpentError
from ecumene.sim.run_directory import RunActiveError
from ecumene.sim.run_life import resume, run
from ecumene.sim.run_options import RunObserver, RunOptions
from ecumene.sim.run_record import RunDoneError
from ecumene.sim.run_results import RunOutcome
from ecumene.sim.spec import RunSpec, load_spec, parse_spec
from ecumene.sim.spec_errors import SpecError

__all__ = [
    "BudgetSpentError",
    "Conductor",
    "GamePlan",
    "RoundObserver",
    "RoundResult",
    "RunActiveError",
    "RunDoneError",
    "RunObserver",
    "RunOptions",
    "RunOutcome",
    "RunSpec",
    "SpecError",
    "load_spec",
    "parse_spec",
    "resume",
    "run",
]
