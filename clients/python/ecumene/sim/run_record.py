"""A run's directory and manifest: made when it begins, true however it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import platform
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from ecumene.client.records import RunManifest, RunState, write_manifest
from ecumene.sim.conductor import RoundResult
from ecumene.sim.reporting import ReportError, report_guess_run
from ecumene.sim.run_results import RunOutcome, count_rows
from ecumene.sim.spec import RunSpec

RECORDED_VERSIONS = ("ecumene", "grpcio", "protobuf", "pyarrow", "lmdb", "xllamacpp")


class RunRecord:
    """The manifest of a run, kept up to date, and the rounds that are over."""

    def __init__(
        self, spec: RunSpec, run: str, directory: Path, started: datetime, now: Callable[[], datetime]
    ) -> None:
        self.run = run
        self.directory = directory
        self.rounds: list[RoundResult] = []
        self._now = now
        self._manifest = RunManifest(
            run=run,
            state=RunState.RUNNING,
            seed=spec.seed,
            spec=spec.to_document(),
            versions=list_versions(),
            world="",
            history="",
            started_at=started.isoformat(timespec="milliseconds"),
        )

    def begin(self, world: str, history: str) -> None:
        """The run has its world."""
        self._manifest = dataclasses.replace(self._manifest, world=world, history=history)
        write_manifest(self.directory, self._manifest)

    def end_well(self) -> RunOutcome:
        """Write that all rounds were played, and the report. Raises OSError, ReportError."""
        manifest = self._write_end(RunState.DONE, "")
        report = report_guess_run(self.directory, told=self._list_told())
        return RunOutcome(self.directory, manifest, tuple(self.rounds), report)

    def end(self, state: RunState, note: str) -> None:
        """Write how it ended otherwise, and a report on the rounds that were recorded, if there are any.

        Raises OSError.
        """
        self._write_end(state, note)
        with contextlib.suppress(ReportError):
            report_guess_run(self.directory, told=self._list_told())

    def _write_end(self, state: RunState, note: str) -> RunManifest:
        ended_at = self._now().isoformat(timespec="milliseconds")
        counts = count_rows(self.directory)
        self._manifest = dataclasses.replace(self._manifest, state=state, note=note, counts=counts, ended_at=ended_at)
        write_manifest(self.directory, self._manifest)
        return self._manifest

    def _list_told(self) -> dict[int, float]:
        return {result.round: result.target for result in self.rounds if result.target is not None}


def list_versions() -> dict[str, str]:
    """What the run ran on."""
    versions = {"python": platform.python_version()}
    for name in RECORDED_VERSIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def make_directory(spec: RunSpec, started: datetime) -> tuple[str, Path]:
    """A new directory for a run, and the run's id: its name and the time, and a number where two meet."""
    stem = f"{spec.name}-{started:%y%m%d-%H%M%S}"
    for number in range(1, 1000):
        name = stem if number == 1 else f"{stem}-{number}"
        directory = spec.recording.directory / name
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        return name, directory
    raise FileExistsError(f"{spec.recording.directory / stem}: a thousand runs began in one second")
