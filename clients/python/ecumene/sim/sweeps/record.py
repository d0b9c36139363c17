"""`sweep.json`: what a sweep is, which runs it has, and where each of them stands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ecumene.client.records import ManifestError, RunState, read_manifest
from ecumene.client.records.whole_files import write_whole
from ecumene.sim.recordings.sweep_file import SWEEP_NAME
from ecumene.sim.runs.directory import make_directory
from ecumene.sim.runs.record import is_reported
from ecumene.sim.specs.spec import RunSpec, parse_spec
from ecumene.sim.sweeps.plan import PlannedRun, plan_sweep

PENDING = "pending"
"""State of a run that has not begun; else it is that of its manifest."""


@dataclass(frozen=True, slots=True)
class SweepRun:
    """One run of a sweep that has its place.

    Attributes:
        planned: what is run.
        name: of the run, and of its directory in that of the sweep.
        state: PENDING, or as in its manifest.
    """

    planned: PlannedRun
    name: str
    state: str = PENDING


class SweepRecord:
    """The file of a sweep, true at any time: each change replaces it as a whole."""

    def __init__(self, spec: RunSpec, sweep: str, directory: Path, started_at: str) -> None:
        self.spec = spec
        self.sweep = sweep
        self.directory = directory
        self.state = str(RunState.RUNNING)
        self.ended_at: str | None = None
        self._started_at = started_at
        digits = max(3, len(str(len(planned := plan_sweep(spec)))))
        self._planned: Sequence[tuple[PlannedRun, str]] = [(one, f"{sweep}-{one.number:0{digits}d}") for one in planned]

    @classmethod
    def create(cls, spec: RunSpec, started: datetime) -> SweepRecord:
        """A new directory for a sweep. Raises OSError, SpecError."""
        plan_sweep(spec)  # a directory is not made for what cannot be run
        sweep, directory = make_directory(spec, started)
        record = cls(spec, sweep, directory, started.isoformat(timespec="milliseconds"))
        record.write()
        return record

    @classmethod
    def reopen(cls, directory: Path) -> SweepRecord:
        """That of a directory. Raises ManifestError, SpecError, OSError."""
        document = read_sweep(directory)
        spec = parse_spec(document["spec"], source=f"{directory / SWEEP_NAME}: spec")
        # The directory may have been moved since.
        recording = spec.recording.model_copy(update={"directory": directory.parent})
        spec = spec.model_copy(update={"recording": recording})
        return cls(spec, document["sweep"], directory, document["started_at"])

    def list_runs(self) -> list[SweepRun]:
        """All runs, each with the state that its own manifest tells."""
        return [SweepRun(planned, name, self._read_state(name)) for planned, name in self._planned]

    def place(self, run: SweepRun) -> RunSpec:
        """The spec of a run, that is recorded in the sweep's directory."""
        recording = run.planned.spec.recording.model_copy(update={"directory": self.directory})
        return run.planned.spec.model_copy(update={"recording": recording})

    def write(self) -> None:
        """Write what stands now, durably. Raises OSError."""
        text = json.dumps(self.to_document(), indent=2, ensure_ascii=False)
        write_whole(self.directory / SWEEP_NAME, text + "\n")

    def to_document(self) -> dict[str, Any]:
        """The file's content."""
        return {
            "sweep": self.sweep,
            "name": self.spec.name,
            "state": self.state,
            "started_at": self._started_at,
            "ended_at": self.ended_at,
            "spec": self.spec.to_document(),
            "runs": [
                {
                    "run": run.name,
                    "directory": run.name,
                    "seed": run.planned.spec.seed,
                    "replicate": run.planned.replicate,
                    "values": dict(run.planned.values),
                    "state": run.state,
                }
                for run in self.list_runs()
            ],
        }

    def _read_state(self, name: str) -> str:
        try:
            state = read_manifest(self.directory / name).state
        except ManifestError:
            return PENDING
        # One that was killed before its report was written has that left to do.
        is_done = state is not RunState.DONE or is_reported(self.directory / name)
        return str(state if is_done else RunState.RUNNING)


def read_sweep(directory: Path) -> Mapping[str, Any]:
    """The file of a sweep's directory. Raises ManifestError."""
    path = directory / SWEEP_NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ManifestError(path, "not found: is this the directory of a sweep?") from error
    except (ValueError, RecursionError) as error:
        raise ManifestError(path, f"not JSON: {error}") from error
    wanted = {"sweep": str, "started_at": str, "spec": dict, "runs": list}
    for name, kind in wanted.items():
        if not isinstance(document, dict) or not isinstance(document.get(name), kind):
            raise ManifestError(path, f"incomplete: {name} is no {kind.__name__}")
    found: Mapping[str, Any] = document
    return found
