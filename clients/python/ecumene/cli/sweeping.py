"""Runs a sweep for a command: a line for each run on stderr, and what they came to on stdout."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from ecumene.cli.failures import CliError, ExitCode, Interrupted, StoppedByBudget
from ecumene.cli.running import describe_figures, stop_by_signals
from ecumene.cli.tables import print_json
from ecumene.client.records import ManifestError, RunState
from ecumene.sim import (
    RunActiveError,
    RunDoneError,
    RunOptions,
    RunOutcome,
    RunSpec,
    RunStoppedError,
    SpecError,
    SweepOutcome,
    resume_sweep,
    run_sweep,
)
from ecumene.sim.runs.unobserved import Unobserved
from ecumene.sim.sweeps.record import SweepRun, read_sweep


def execute_sweep(spec: RunSpec, options: RunOptions, *, as_json: bool) -> None:
    """Run all runs of a sweep. Raises CliError, Interrupted, StoppedByBudget, with the command that goes on."""
    _conduct(lambda display: run_sweep(spec, observer=display, options=options), as_json=as_json)


def execute_sweep_resume(directory: Path, options: RunOptions, *, as_json: bool) -> None:
    """Go on with the sweep of a directory. Raises as `execute_sweep` does."""
    _conduct(lambda display: resume_sweep(directory, observer=display, options=options), as_json=as_json)


def _conduct(begin: Callable[[SweepDisplay], Coroutine[Any, Any, SweepOutcome]], *, as_json: bool) -> None:
    display = SweepDisplay()
    try:
        outcome = asyncio.run(stop_by_signals(begin(display)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Interrupted(f"interrupted{display.describe_kept()}", hint=display.describe_resume()) from None
    except RunStoppedError as error:
        raise Interrupted(f"{error}{display.describe_kept()}", hint=display.describe_resume()) from error
    except (RunActiveError, RunDoneError, SpecError, ManifestError) as error:
        raise CliError(str(error), hint=getattr(error, "hint", ""), exit_code=ExitCode.USAGE) from error
    except OSError as error:
        raise CliError(f"{error.strerror or error}: {error.filename or display.directory or ''}") from error
    if as_json:
        print_json(dict(read_sweep(outcome.directory)) | {"directory": str(outcome.directory)})
    counts: dict[str, int] = {}
    for one in outcome.runs:
        counts[one.state] = counts.get(one.state, 0) + 1
    told = ", ".join(f"{count:,} {state.replace('_', ' ')}" for state, count in counts.items())
    if outcome.state is RunState.DONE:
        if not as_json:
            print(f"{len(outcome.runs):,} runs: {told}\nrecords: {outcome.directory}")
        return
    kind = {RunState.STOPPED_BY_BUDGET: StoppedByBudget, RunState.INTERRUPTED: Interrupted}.get(outcome.state, CliError)
    raise kind(f"of {len(outcome.runs):,} runs {told}{display.describe_kept()}", hint=display.describe_resume())


class SweepDisplay:
    """An observer of a sweep that writes a line for each run."""

    def __init__(self) -> None:
        self.directory: Path | None = None
        self._runs = 0

    def describe_kept(self) -> str:
        """Where the records of a sweep that was cut short are."""
        return f"; what was recorded is in {self.directory}" if self.directory else ""

    def describe_resume(self) -> str:
        """The command that goes on with it."""
        return f"go on with it: ecumene resume {shlex.quote(str(self.directory))}" if self.directory else ""

    def directory_chosen(self, directory: Path) -> None:
        """What is said of a sweep that is cut short names it."""
        self.directory = directory

    def sweep_began(self, runs: int, done: int) -> None:
        """A line."""
        self._runs = runs
        before = f", {done:,} of which are done" if done else ""
        self._note(f"{'1 run' if runs == 1 else f'{runs:,} runs'}{before} ({self.directory})")

    def observe(self, run: SweepRun) -> Unobserved:
        """A line."""
        self._note(f"{self._name(run)} begins: seed {run.planned.spec.seed}")
        return Unobserved()  # runs side by side would talk at once

    def run_ended(self, run: SweepRun, outcome: RunOutcome | None, error: BaseException | None) -> None:
        """A line."""
        if outcome is None:
            self._note(f"{self._name(run)} {run.state.replace('_', ' ')}: {' '.join(str(error).split())}")
            return
        means = ", ".join("-" if one.mean is None else f"{one.mean:.2f}" for one in outcome.rounds[-5:])
        before = "… " if len(outcome.rounds) > 5 else ""
        told = f"means {before}{means}"
        if outcome.rounds and outcome.rounds[-1].figures:
            told = f"the last with {describe_figures(outcome.rounds[-1])}"
        self._note(f"{self._name(run)} done: {len(outcome.rounds):,} rounds, {told}")

    def _name(self, run: SweepRun) -> str:
        values = [f"{path} = {value}" for path, value in run.planned.values.items()]
        what = ", ".join([*values, f"replicate {run.planned.replicate}"])
        return f"run {run.planned.number:,} of {self._runs:,} ({what})"

    def _note(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)
