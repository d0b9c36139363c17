"""The manifest of a run: what it takes to know what was run, and to run it again."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from ecumene.client.records.tables import SCHEMA_VERSION
from ecumene.client.records.whole_files import write_whole

MANIFEST_NAME = "manifest.json"


class RunState(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    STOPPED_BY_BUDGET = "stopped_by_budget"


class ManifestError(ValueError):
    """A manifest that is absent or cannot be read; `path` says which, the message why."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True)
class RunManifest:
    """What a run is. Holds no secrets: a spec names keys by environment variable or file.

    Attributes:
        run: id of the run.
        state: where it stands.
        seed: the seed from which everything random follows.
        spec: the whole spec, as plain JSON.
        versions: distribution or program -> version.
        world, history: the world it lived in, and the id of that world's line of revisions.
        server: address of the server that was given; "" = one of the run's own, with its data in `world/`.
        over_nodes: its agents live on the nodes of the world.
        first_revision: from here on its events are recorded; 0 = it never had a world.
        started_at, ended_at: UTC, ISO 8601; `ended_at` is None while it runs.
        counts: table -> recorded rows.
        schema_version: of the recorded tables.
        ended_by: of a run that is done, which stop condition ended it, with its figures; "" = its last round.
        note: why it ended, if it did not end well; one line.
    """

    run: str
    state: RunState
    seed: int
    spec: dict[str, Any]
    versions: dict[str, str]
    world: str
    history: str
    started_at: str
    ended_at: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    note: str = ""
    ended_by: str = ""
    server: str = ""
    over_nodes: bool = False
    first_revision: int = 0


_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("run", "state", "world", "history", "started_at", "note", "ended_by", "server"), (str,)),
    **dict.fromkeys(("seed", "schema_version", "first_revision"), (int,)),
    **dict.fromkeys(("versions", "counts"), (dict,)),
    "over_nodes": (bool,),
    "ended_at": (str, type(None)),
}
"""Of the fields; what the spec must be its reader says."""


def write_manifest(directory: Path, manifest: RunManifest) -> Path:
    """Put the manifest into a run's directory, replacing an older one durably and as a whole.

    Returns its path. Raises OSError.
    """
    target = directory / MANIFEST_NAME
    document = json.dumps(dataclasses.asdict(manifest), indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(target, document + "\n")
    return target


def read_manifest(directory: Path) -> RunManifest:
    """The manifest of a run's directory; fields that this version does not know are left out.

    Raises ManifestError if it is absent, no JSON object, incomplete, or of a newer schema.
    """
    path = directory / MANIFEST_NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ManifestError(path, "not found: is this the directory of a run?") from error
    except RecursionError as error:
        raise ManifestError(path, "not JSON: nested too deeply") from error
    except ValueError as error:
        raise ManifestError(path, f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ManifestError(path, "not a JSON object")
    for name, kinds in _KINDS.items():
        if not isinstance(document.get(name, kinds[0]()), kinds):
            raise ManifestError(path, f"{name} is no {kinds[0].__name__}")
    if document.get("schema_version", SCHEMA_VERSION) > SCHEMA_VERSION:
        raise ManifestError(path, f"recorded by a newer version (schema {document['schema_version']})")
    known = {entry.name for entry in dataclasses.fields(RunManifest)}
    given = {name: value for name, value in document.items() if name in known}
    try:
        return RunManifest(**{**given, "state": RunState(given.get("state", ""))})
    except (TypeError, ValueError) as error:
        raise ManifestError(path, f"incomplete: {error}") from error
