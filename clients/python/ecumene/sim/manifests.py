"""The manifest of a run, written when it begins and again when it ends."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from ecumene.client.records import (
    TABLES,
    RunManifest,
    RunState,
    list_parts,
    read_manifest,
    write_manifest,
)
from ecumene.sim.spec import RunSpec

_NAMED_PACKAGES = ("ecumene", "grpcio", "protobuf", "pyarrow", "numpy", "pydantic")


def begin_manifest(
    directory: Path, spec: RunSpec, *, run: str, world: str, history: str, started_at: datetime
) -> RunManifest:
    """Make the run's directory and write the manifest of a run that begins now. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    manifest = RunManifest(
        run=run,
        state=RunState.RUNNING,
        seed=spec.seed,
        spec=spec.to_document(),
        versions=collect_versions(),
        world=world,
        history=history,
        started_at=format_instant(started_at),
    )
    write_manifest(directory, manifest)
    return manifest


def end_manifest(directory: Path, state: RunState, *, ended_at: datetime, note: str = "") -> RunManifest:
    """Write how a run ended, with the rows that are recorded. Raises ManifestError, OSError."""
    manifest = dataclasses.replace(
        read_manifest(directory),
        state=state,
        ended_at=format_instant(ended_at),
        counts=count_rows(directory),
        note=" ".join(note.split()),
    )
    write_manifest(directory, manifest)
    return manifest


def count_rows(directory: Path) -> dict[str, int]:
    """Table -> rows in its closed parts, from their footers."""
    return {
        table.name: sum(pq.read_metadata(part).num_rows for part in list_parts(directory, table)) for table in TABLES
    }


def collect_versions() -> dict[str, str]:
    """Versions of Python and of what a run's result may depend on."""
    found = {"python": platform.python_version()}
    for name in _NAMED_PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def format_instant(instant: datetime) -> str:
    """An instant in UTC, ISO 8601. Raises ValueError for one without a zone."""
    if instant.tzinfo is None:
        raise ValueError(f"{instant} has no time zone")
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
