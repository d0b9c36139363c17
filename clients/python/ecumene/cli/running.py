"""Runs an experiment for a command: shows how it goes on stderr, and what it came to on stdout."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from ecumene.cli.connecting import NO_SERVER_HINT
from ecumene.cli.failures import CliError, ExitCode, Interrupted, StoppedByBudget
from ecumene.cli.progress import ProgressDisplay, show_progress
from ecumene.cli.tables import WIDTH_WITHOUT_TERMINAL, print_json
from ecumene.client.errors import ConnectionFailedError, EcumeneError
from ecumene.client.records import ManifestError
from ecumene.client.runtime_errors import LaunchRefusedError
from ecumene.launch import ServiceStartError
from ecumene.sim import (
    BudgetSpentError,
    RoundResult,
    RoundsPlan,
    RunActiveError,
    RunDoneError,
    RunOptions,
    RunOutcome,
    RunSpec,
    RunStoppedError,
    SpecError,
    resume,
    run,
)
from ecumene.sim.asking.intervention_records import describe_intervention, read_interventions
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.reporting import render_report
from ecumene.sim.reporting.experiment import BOOKKEEPING
from ecumene.sim.reporting.experiment_terminal import format_value
from ecumene.sim.rounds.results import TIME

Outcome = TypeVar("Outcome")
FIGURES_SHOWN_MAX = 4
"""On a line."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def execute(spec: RunSpec, options: RunOptions, *, as_json: bool) -> None:
    """Run a spec to its end and print its report.

    Raises CliError in one line, Interrupted and StoppedByBudget after a clean stop, each with the command that goes on.
    """
    outcome = conduct(lambda display: run(spec, observer=display, options=options), options)
    _show(outcome, as_json=as_json)


def execute_resume(directory: Path, options: RunOptions, *, as_json: bool) -> None:
    """Go on with the run of a directory and print its report. Raises as `execute` does."""
    outcome = conduct(lambda display: resume(directory, observer=display, options=options), options, directory)
    _show(outcome, as_json=as_json)


def conduct(
    begin: Callable[[RunDisplay], Coroutine[Any, Any, Outcome]], options: RunOptions, directory: Path | None = None
) -> Outcome:
    """Do what runs something, showing how it goes; what it came to. Raises as `execute` does."""
    display = RunDisplay(directory)
    try:
        return asyncio.run(stop_by_signals(begin(display)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise Interrupted(f"interrupted{display.describe_kept()}", hint=display.describe_resume()) from None
    except RunStoppedError as error:
        raise Interrupted(f"{error}{display.describe_kept()}", hint=display.describe_resume()) from error
    except BudgetSpentError as error:
        more = _describe_more(error)
        raise StoppedByBudget(
            f"{error}{display.describe_kept()}", hint=f"{display.describe_resume()} {more}".strip()
        ) from error
    except (RunActiveError, RunDoneError, SpecError, PopulationError, ManifestError) as error:
        raise CliError(str(error), hint=getattr(error, "hint", ""), exit_code=ExitCode.USAGE) from error
    except LaunchRefusedError as error:
        raise CliError(str(error), exit_code=ExitCode.USAGE) from error
    except ServiceStartError as error:
        # What it was told cannot be run, and cannot be gone on with either.
        is_usage = error.exit_code == ExitCode.USAGE
        hint = "" if is_usage else display.describe_resume()
        raise CliError(str(error), hint=hint, exit_code=ExitCode.USAGE if is_usage else ExitCode.FAILED) from error
    except ConnectionFailedError as error:
        raise CliError(str(error), hint=NO_SERVER_HINT if options.server else display.describe_resume()) from error
    except EcumeneError as error:
        # What has to be mended first comes before the command that goes on then.
        go_on = display.describe_resume() if getattr(error, "can_resume", True) else ""
        hints = [getattr(error, "hint", ""), go_on]
        raise CliError(str(error), hint="\n  ".join(hint for hint in hints if hint)) from error
    except OSError as error:
        raise CliError(f"{error.strerror or error}: {error.filename or display.directory or ''}") from error
    finally:
        display.close()


def _show(outcome: RunOutcome, *, as_json: bool) -> None:
    if as_json:
        print_json(outcome.to_document())
    else:
        show_outcome(outcome)


async def stop_by_signals(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Let Ctrl-C, SIGTERM, and the end of the terminal stop a run in order, with its summary.

    However often they come: neither in the middle of what is written at the end, nor while the command says afterwards
    where that is, does any of them raise anything.
    """
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    heeded = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, task.cancel)
    try:
        return await work
    finally:
        is_stopped = task.cancelling() > 0
        for number in heeded:
            loop.remove_signal_handler(number)
            if is_stopped:
                signal.signal(number, signal.SIG_IGN)


def _describe_more(error: BudgetSpentError) -> str:
    """The option that raises what is spent: twice as much, as an example."""
    option = "--tokens-max" if error.unit == "tokens" else "--microdollars-max"
    return f"{option} {'' if error.whose == 'run' else f'{error.whose}='}{max(1, error.maximum) * 2}"


def show_outcome(outcome: RunOutcome) -> None:
    """Print the table of rounds, what it compares with, and where everything is."""
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
    console.print(render_report(outcome.report), highlight=False, markup=False, soft_wrap=True)
    for done in read_interventions(outcome.directory):
        print(describe_intervention(done))
    print(f"records: {outcome.directory}")


class RunDisplay:
    """An observer that shows a run: what is being done, a bar over all turns, a line a round."""

    def __init__(self, directory: Path | None = None) -> None:
        """`directory`: of a run that is gone on with."""
        self._progress: ProgressDisplay | None = None
        self._participants = 0
        self._rounds = 0
        self._rounds_closed = 0
        self.directory = directory

    def close(self) -> None:
        """End the bar, if there is one."""
        if self._progress is not None:
            self._progress.__exit__(None, None, None)
            self._progress = None

    def describe_kept(self) -> str:
        """Where the records of a run that was cut short are."""
        return f"; what was recorded is in {self.directory}" if self.directory else ""

    def describe_resume(self) -> str:
        """The command that goes on with it."""
        return f"go on with it: ecumene resume {shlex.quote(str(self.directory))}" if self.directory else ""

    def stage_began(self, stage: str) -> None:
        """A line."""
        self._note(stage)

    def directory_chosen(self, directory: Path) -> None:
        """What is said of a run that is cut short names it."""
        self.directory = directory

    def run_began(self, run_id: str, directory: Path, plan: RoundsPlan, rounds_done: int) -> None:
        """The bar begins."""
        self._participants, self._rounds, self._rounds_closed = plan.participants, plan.rounds, rounds_done
        rounds = "1 round" if plan.rounds == 1 else f"{plan.rounds:,} rounds"
        players = "1 agent plays" if plan.participants == 1 else f"{plan.participants:,} agents play"
        before = f", {rounds_done:,} of which are played" if rounds_done else ""
        self._note(f"{players} {rounds}{before} (run {run_id})")
        self._progress = show_progress("turns", plan.participants * plan.rounds, "turns")
        self._progress.__enter__()

    def round_opened(self, round_number: int) -> None:
        """The bar says which round."""
        self.reports_counted(round_number, 0)

    def reports_counted(self, round_number: int, reported: int) -> None:
        """The bar moves."""
        if self._progress is not None:
            done = (round_number - 1) * self._participants + reported
            self._progress.show(done, f"round {round_number} of {self._rounds}")

    def round_closed(self, result: RoundResult) -> None:
        """A line with what the world told."""
        self._rounds_closed += 1
        self.reports_counted(self._rounds_closed, self._participants)
        self._note(describe_round(result, self._rounds_closed))

    def _note(self, line: str) -> None:
        if self._progress is not None:
            self._progress.note(line)
        else:
            print(line, file=sys.stderr, flush=True)


def _describe_groups(groups: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {'–' if number is None else f'{number:.4f}'}" for name, number in groups.items())


def describe_round(result: RoundResult, number: int) -> str:
    """A round on one line; `number` is the run's own, not the game's in a world that has seen rounds before."""
    if result.gate_cause == TIME:
        return f"round {number}: {describe_figures(result)} in {result.wall_s:.2f} s"
    if result.figures:
        figures = describe_figures(result)
    elif result.mean is None or result.target is None:
        figures = "nobody reported a number"
    else:
        figures = f"mean {result.mean:.4f}, winning number {result.target:.4f}"
    if result.groups:
        figures = f"{_describe_groups(result.groups)}; {figures}"
    lost = [f"{count:,} {what}" for count, what in ((result.failed, "failed"), (result.missing, "missing")) if count]
    rest = f", {', '.join(lost)}" if lost else ""
    of_game = "" if result.round == number else f" ({result.round:,} of its world)"
    return f"round {number}{of_game}: {figures}; {result.reported:,} reported{rest} in {result.wall_s:.2f} s"


def describe_figures(result: RoundResult) -> str:
    """The first figures of a round of an experiment."""
    told = {name: value for name, value in result.figures.items() if name not in BOOKKEEPING or name == "until"}
    shown = [f"{name} {format_value(value)}" for name, value in list(told.items())[:FIGURES_SHOWN_MAX]]
    return ", ".join(shown) or "no figures"
