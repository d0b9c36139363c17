"""Runs an experiment for a command: shows how it goes on stderr, and what it came to on stdout."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from rich.console import Console

from ecumene.cli.connecting import NO_SERVER_HINT
from ecumene.cli.failures import CliError, Interrupted
from ecumene.cli.progress import ProgressDisplay, show_progress
from ecumene.cli.tables import WIDTH_WITHOUT_TERMINAL, print_json
from ecumene.client.errors import ConnectionFailedError
from ecumene.sim import GamePlan, RoundResult, RunOptions, RunOutcome, RunSpec, run
from ecumene.sim.reporting import render_report


def execute(spec: RunSpec, options: RunOptions, *, as_json: bool) -> None:
    """Run a spec to its end and print its report.

    Raises CliError in one line, Interrupted after a clean stop; what the SDK raises otherwise.
    """
    display = RunDisplay()
    try:
        outcome = asyncio.run(run(spec, observer=display, options=options))
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted{display.describe_kept()}") from None
    except ConnectionFailedError as error:
        raise CliError(str(error), hint=NO_SERVER_HINT if options.server else "") from error
    except OSError as error:
        raise CliError(f"{error.strerror or error}: {error.filename or spec.recording.directory}") from error
    finally:
        display.close()
    if as_json:
        print_json(outcome.to_document())
    else:
        show_outcome(outcome)


def show_outcome(outcome: RunOutcome) -> None:
    """Print the table of rounds, what it compares with, and where everything is."""
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
    console.print(render_report(outcome.report), highlight=False, markup=False, soft_wrap=True)
    print(f"records: {outcome.directory}")


class RunDisplay:
    """An observer that shows a run: what is being done, a bar over all turns, a line a round."""

    def __init__(self) -> None:
        self._progress: ProgressDisplay | None = None
        self._participants = 0
        self._rounds = 0
        self._directory: Path | None = None

    def close(self) -> None:
        """End the bar, if there is one."""
        if self._progress is not None:
            self._progress.__exit__(None, None, None)
            self._progress = None

    def describe_kept(self) -> str:
        """Where the records of a run that was cut short are."""
        return f"; what was recorded is in {self._directory}" if self._directory else ""

    def stage_began(self, stage: str) -> None:
        """A line."""
        self._note(stage)

    def run_began(self, run_id: str, directory: Path, plan: GamePlan) -> None:
        """The bar begins."""
        self._participants, self._rounds, self._directory = plan.participants, plan.rounds, directory
        rounds = "1 round" if plan.rounds == 1 else f"{plan.rounds:,} rounds"
        players = "1 agent plays" if plan.participants == 1 else f"{plan.participants:,} agents play"
        self._note(f"{players} {rounds} (run {run_id})")
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
        self.reports_counted(result.round, self._participants)
        self._note(describe_round(result))

    def _note(self, line: str) -> None:
        if self._progress is not None:
            self._progress.note(line)
        else:
            print(line, file=sys.stderr, flush=True)


def describe_round(result: RoundResult) -> str:
    """A round on one line."""
    if result.mean is None or result.target is None:
        figures = "nobody reported a number"
    else:
        figures = f"mean {result.mean:.4f}, winning number {result.target:.4f}"
    lost = [f"{count:,} {what}" for count, what in ((result.failed, "failed"), (result.missing, "missing")) if count]
    rest = f", {', '.join(lost)}" if lost else ""
    return f"round {result.round}: {figures}; {result.reported:,} reported{rest} in {result.wall_s:.2f} s"
