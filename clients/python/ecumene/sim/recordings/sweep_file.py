"""What a sweep's directory says of its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ecumene.sim.recordings.tables import RecordingError

SWEEP_NAME = "sweep.json"


@dataclass(frozen=True, slots=True)
class SweepRun:
    """One run of a sweep: its directory, its replicate from 1, what was varied in it, and where it stands."""

    run: str
    directory: Path
    seed: int
    replicate: int
    values: Mapping[str, Any]
    state: str


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep and its runs, in their order."""

    sweep: str
    name: str
    state: str
    started_at: str
    ended_at: str | None
    spec: Mapping[str, Any]
    runs: tuple[SweepRun, ...]

    @property
    def varied(self) -> list[str]:
        """The fields that differ between its conditions, in the order in which they are given."""
        return list(dict.fromkeys(name for run in self.runs for name in run.values))


def is_sweep(directory: Path) -> bool:
    """Whether a directory is that of a sweep."""
    return (directory / SWEEP_NAME).is_file()


def read_sweep(directory: Path) -> Sweep:
    """Read a sweep's directory. Raises RecordingError if its file is damaged or leads out of the directory."""
    path = directory / SWEEP_NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        runs = tuple(_read_run(directory, run) for run in document["runs"])
        return Sweep(
            sweep=str(document["sweep"]),
            name=str(document["name"]),
            state=str(document["state"]),
            started_at=str(document["started_at"]),
            ended_at=document.get("ended_at"),
            spec=dict(document.get("spec") or {}),
            runs=runs,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise RecordingError(f"{path}: is no description of a sweep: {type(error).__name__}: {error}") from error


def _read_run(directory: Path, document: Mapping[str, Any]) -> SweepRun:
    place = directory / document["directory"]
    if not place.resolve().is_relative_to(directory.resolve()):
        raise ValueError(f"run {document['run']} lies outside, at {document['directory']}")
    return SweepRun(
        run=str(document["run"]),
        directory=place,
        seed=int(document["seed"]),
        replicate=int(document["replicate"]),
        values=dict(document["values"]),
        state=str(document["state"]),
    )
