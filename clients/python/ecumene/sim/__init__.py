"""Populations, experiments, recordings and reports."""

from ecumene.sim.rounds.conductor import Conductor
from ecumene.sim.rounds.plans import GamePlan, RoundsPlan
from ecumene.sim.rounds.results import RoundObserver, RoundResult
from ecumene.sim.runs.attaching import RunNotLiveError, find_live_world
from ecumene.sim.runs.budgets import BudgetSpentError
from ecumene.sim.runs.directory import RunActiveError
from ecumene.sim.runs.life import resume, run
from ecumene.sim.runs.options import RunObserver, RunOptions
from ecumene.sim.runs.record import RunDoneError
from ecumene.sim.runs.results import RunOutcome
from ecumene.sim.runs.stopping import RunStoppedError
from ecumene.sim.specs.errors import SpecError
from ecumene.sim.specs.spec import RunSpec, load_spec, parse_spec
from ecumene.sim.sweeps.life import SweepObserver, SweepOutcome, resume_sweep, run_sweep
from ecumene.sim.sweeps.plan import plan_sweep

__all__ = [
    "BudgetSpentError",
    "Conductor",
    "GamePlan",
    "RoundObserver",
    "RoundResult",
    "RoundsPlan",
    "RunActiveError",
    "RunDoneError",
    "RunNotLiveError",
    "RunObserver",
    "RunOptions",
    "RunOutcome",
    "RunSpec",
    "RunStoppedError",
    "SpecError",
    "SweepObserver",
    "SweepOutcome",
    "find_live_world",
    "load_spec",
    "parse_spec",
    "plan_sweep",
    "resume",
    "resume_sweep",
    "run",
    "run_sweep",
]
