"""What a run's directory says of it: its manifest, true however the run ends, and the rounds that are over."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import platform
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from ecumene.client.errors import EcumeneError
from ecumene.client.records import RunManifest, RunState, read_manifest, write_manifest
from ecumene.sim.recordings import RecordingError
from ecumene.sim.reporting import (
    SUMMARY_NAME,
    ExperimentReport,
    GuessReport,
    ReportError,
    report_experiment,
    report_guess_run,
)
from ecumene.sim.rounds.notes import note_round, take_up_rounds
from ecumene.sim.rounds.results import RoundResult
from ecumene.sim.rounds.stopping import find_stop
from ecumene.sim.runs.results import RunOutcome, count_rows
from ecumene.sim.specs.spec import RunSpec, parse_spec
from ecumene.sim.specs.stop import StopSpec

RECORDED_VERSIONS = ("ecumene", "grpcio", "protobuf", "pyarrow", "lmdb", "xllamacpp")


class RunDoneError(EcumeneError):
    """A run of which nothing is left to do."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        super().__init__(f"{directory}: the run is done, there is nothing to go on with")


class WorldChangedError(EcumeneError):
    """The world of a run is not the one that it lived in any more."""

    def __init__(self, world: str) -> None:
        self.world = world
        super().__init__(f"world {world} is not the one that the run lived in: it was made anew, restored, or set back")


class RunRecord:
    """The manifest of a run, kept up to date, and its rounds."""

    def __init__(self, manifest: RunManifest, directory: Path, now: Callable[[], datetime]) -> None:
        self.run = manifest.run
        self.directory = directory
        self.rounds: list[RoundResult] = []
        self._now = now
        self._manifest = manifest
        self._stop: StopSpec | None = None

    @classmethod
    def create(
        cls,
        spec: RunSpec,
        run: str,
        directory: Path,
        started: datetime,
        now: Callable[[], datetime],
        *,
        server: str,
        over_nodes: bool,
    ) -> RunRecord:
        """Of a new run; `server` "" = one of its own. Raises OSError."""
        manifest = RunManifest(
            run=run,
            state=RunState.RUNNING,
            seed=spec.seed,
            spec=spec.to_document(),
            versions=list_versions(),
            world="",
            history="",
            started_at=started.isoformat(timespec="milliseconds"),
            server=server,
            over_nodes=over_nodes,
        )
        write_manifest(directory, manifest)
        return cls(manifest, directory, now)

    @classmethod
    def reopen(cls, directory: Path, now: Callable[[], datetime]) -> RunRecord:
        """Of a run that is to be gone on with, with the rounds that were noted as closed.

        Raises ManifestError, OSError; RunDoneError if it has come to its end.
        """
        manifest = read_manifest(directory)
        if manifest.state is RunState.DONE and is_reported(directory):
            raise RunDoneError(directory)
        record = cls(manifest, directory, now)
        record.rounds += take_up_rounds(directory)
        return record

    @property
    def manifest(self) -> RunManifest:
        """As it stands now."""
        return self._manifest

    def read_spec(self) -> RunSpec:
        """The spec of the run. Raises SpecError."""
        return parse_spec(self._manifest.spec, source=f"{self.directory}: spec of the manifest")

    def go_on(self, spec: RunSpec, *, server: str) -> None:
        """The run is gone on with: with other budgets perhaps, or at another address. Raises OSError."""
        changes = {"state": RunState.RUNNING, "note": "", "ended_at": None, "server": server}
        self._manifest = dataclasses.replace(self._manifest, spec=spec.to_document(), **changes)  # type: ignore[arg-type]
        write_manifest(self.directory, self._manifest)

    def begin(self, world: str, history: str, revision: int) -> None:
        """The run has its world, which is at `revision`. Raises WorldChangedError: it had another; OSError."""
        known = self._manifest
        if known.history and (known.world, known.history) != (world, history):
            raise WorldChangedError(world)
        if not known.history:
            self._manifest = dataclasses.replace(known, world=world, history=history, first_revision=revision + 1)
            write_manifest(self.directory, self._manifest)

    def find_stop(self) -> str:
        """Which stop condition of the spec holds after the rounds so far; "" = none."""
        if self._stop is None and self._manifest.spec.get("stop"):
            self._stop = StopSpec.model_validate(self._manifest.spec["stop"])
        return find_stop(self._stop, self.rounds)

    def note_round(self, result: RoundResult) -> None:
        """A round is over: that is on the disk when this returns. Raises OSError."""
        self.rounds.append(result)
        note_round(self.directory, result)

    def end_well(self) -> RunOutcome:
        """Write that its rounds are over, and what ended them, and the report. Raises OSError, ReportError."""
        self._manifest = dataclasses.replace(self._manifest, ended_by=self.find_stop())
        manifest = self._write_end(RunState.DONE, "")
        report = self._report()
        return RunOutcome(self.directory, manifest, tuple(self.rounds), report)

    def end(self, state: RunState, note: str) -> None:
        """Write how it ended otherwise, and a report on the rounds that were recorded, if there are any.

        Raises OSError.
        """
        self._write_end(state, note)
        with contextlib.suppress(ReportError, RecordingError):
            self._report()

    def _report(self) -> GuessReport | ExperimentReport:
        if self._manifest.spec.get("experiment") is not None:
            return report_experiment(self.directory)
        return report_guess_run(self.directory, told=self._list_told())

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


def is_reported(directory: Path) -> bool:
    """Whether the report of a run that is done was written to its end."""
    try:
        summary = json.loads((directory / SUMMARY_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(summary.get("state") == RunState.DONE)
