"""Runs the runs of a sweep, some at a time, and goes on with a sweep that ended before its time.

    sweep.json ─► run 001 ─► run 002 ─► …        each as if it were begun alone, in a directory of its own

What a run came to stands in its own manifest; a sweep asks these, so that a kill at any moment loses nothing: finished
runs are not repeated, others are gone on with where they stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ecumene.client.errors import EcumeneError
from ecumene.client.records import RunState
from ecumene.sim.runs.budgets import raise_budgets
from ecumene.sim.runs.directory import RunLock
from ecumene.sim.runs.life import resume, run
from ecumene.sim.runs.options import RunObserver, RunOptions
from ecumene.sim.runs.record import RunDoneError
from ecumene.sim.runs.results import RunOutcome
from ecumene.sim.runs.stopping import heed_requests
from ecumene.sim.runs.unobserved import Unobserved
from ecumene.sim.specs.errors import SpecError, SpecProblem
from ecumene.sim.specs.spec import RunSpec, take_spec
from ecumene.sim.sweeps.record import PENDING, SweepRecord, SweepRun


class SweepObserver(Protocol):
    """Is told how a sweep goes, in its loop; must not block."""

    def directory_chosen(self, directory: Path) -> None:
        """The sweep has its directory: from now on it can be gone on with."""

    def sweep_began(self, runs: int, done: int) -> None:
        """So many runs there are, of which some are done already."""

    def observe(self, run: SweepRun) -> RunObserver:
        """A run begins, or is gone on with; who is told how it goes."""

    def run_ended(self, run: SweepRun, outcome: RunOutcome | None, error: BaseException | None) -> None:
        """A run has its state; the outcome of one that is done, what ended another."""


class UnobservedSweep:
    """Takes no notice of anything."""

    def directory_chosen(self, directory: Path) -> None:
        """Nothing."""

    def sweep_began(self, runs: int, done: int) -> None:
        """Nothing."""

    def observe(self, run: SweepRun) -> RunObserver:
        """Nobody either."""
        return Unobserved()

    def run_ended(self, run: SweepRun, outcome: RunOutcome | None, error: BaseException | None) -> None:
        """Nothing."""


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """A sweep of which nothing runs any more.

    Attributes:
        directory: holds sweep.json, and a directory for each run.
        state: done when all runs are; else that of the first that is not.
        runs: all of them.
    """

    directory: Path
    state: RunState
    runs: tuple[SweepRun, ...]


async def run_sweep(
    spec: RunSpec | Mapping[str, Any] | Path | str,
    *,
    observer: SweepObserver | None = None,
    options: RunOptions | None = None,
) -> SweepOutcome:
    """Run all runs of a spec's sweep; `spec` as in `run`.

    A run that fails does not end the others, unless the sweep says `fail_fast`. If this is cancelled, the runs that go
    on are stopped in order, and sweep.json says `interrupted`.

    Raises SpecError, OSError; RunStoppedError: its end was asked for.
    """
    options, spec = options or RunOptions(), take_spec(spec)
    if options.over_nodes:
        problem = "runs of a sweep have a world each, and a node lives in one: leave out --nodes (--server alone works)"
        raise SpecError(spec.name, [SpecProblem("sweep", problem)])
    record = await asyncio.to_thread(SweepRecord.create, spec.resolve_paths(), options.now())
    return await _live(record, observer or UnobservedSweep(), options)


async def resume_sweep(
    directory: Path, *, observer: SweepObserver | None = None, options: RunOptions | None = None
) -> SweepOutcome:
    """Go on with the sweep of a directory: runs that are done stay, others are gone on with, or begun.

    Raises RunDoneError when all are done, RunActiveError when somebody conducts it, ManifestError, SpecError, OSError.
    """
    record = await asyncio.to_thread(SweepRecord.reopen, directory)
    return await _live(record, observer or UnobservedSweep(), options or RunOptions())


async def _live(record: SweepRecord, observer: SweepObserver, options: RunOptions) -> SweepOutcome:
    sweep = record.spec.sweep
    async with RunLock(record.directory, waits_for_writers=False):
        runs = record.list_runs()
        left = [one for one in runs if one.state != RunState.DONE]
        if not left:
            raise RunDoneError(record.directory)
        observer.directory_chosen(record.directory)
        observer.sweep_began(len(runs), len(runs) - len(left))
        record.state, record.ended_at = str(RunState.RUNNING), None
        record.write()
        is_fast, parallel = (sweep.fail_fast, sweep.parallel) if sweep else (False, 1)
        waiting = iter(left)
        state = RunState.INTERRUPTED
        try:
            conduct = _Conduct(record, observer, options, is_fast)
            async with heed_requests(record.directory):
                await _side_by_side(lambda: conduct.work(waiting), min(parallel, len(left)))
            state = _sum_up(record.list_runs())
        finally:
            record.state, record.ended_at = str(state), options.now().isoformat(timespec="milliseconds")
            record.write()
    return SweepOutcome(record.directory, state, tuple(record.list_runs()))


class _Conduct:
    """Takes runs, one after the other."""

    def __init__(self, record: SweepRecord, observer: SweepObserver, options: RunOptions, is_fast: bool) -> None:
        self._record = record
        self._observer = observer
        self._options = options
        self._is_fast = is_fast
        self._is_over = False

    async def work(self, waiting: Iterator[SweepRun]) -> None:
        """Take what waits until nothing does, or a run has ended the sweep."""
        for one in waiting:
            if self._is_over:
                return
            outcome, error = await self._live(one)
            state = (
                str(RunState.DONE)
                if outcome
                else next(run.state for run in self._record.list_runs() if run.name == one.name)
            )
            self._record.write()
            self._observer.run_ended(replace(one, state=state), outcome, error)
            self._is_over = self._is_over or (self._is_fast and error is not None)

    async def _live(self, one: SweepRun) -> tuple[RunOutcome | None, Exception | None]:
        observer = self._observer.observe(one)
        try:
            if one.state == PENDING:
                options = replace(self._options, name=one.name, budgets={})
                # Of a sweep that is gone on with by larger budgets: they hold for what has not begun, too.
                spec = raise_budgets(self._record.place(one), self._options.budgets)
                return await run(spec, observer=observer, options=options), None
            directory = self._record.directory / one.name
            return await resume(directory, observer=observer, options=self._options), None
        except (EcumeneError, OSError, ValueError) as error:
            return None, error


async def _side_by_side(work: Callable[[], Coroutine[Any, Any, None]], count: int) -> None:
    """Some of the same at a time; when this is cancelled, or one fails, all have ended before it is raised."""
    tasks = [asyncio.create_task(work(), name=f"runs of a sweep {number}") for number in range(count)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _sum_up(runs: list[SweepRun]) -> RunState:
    states = [RunState.INTERRUPTED if one.state in (PENDING, RunState.RUNNING) else RunState(one.state) for one in runs]
    worst = (RunState.FAILED, RunState.STOPPED_BY_BUDGET, RunState.INTERRUPTED)
    return next((state for state in worst if state in states), RunState.DONE)
