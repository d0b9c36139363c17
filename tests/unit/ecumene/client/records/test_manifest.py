"""The manifest comes back as it was written, and says what is wrong with it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from ecumene.client.records import ManifestError, RunManifest, RunState, read_manifest, write_manifest

MANIFEST = RunManifest(
    run="run-1",
    state=RunState.RUNNING,
    seed=7,
    spec={"name": "Größe", "game": {"rounds": 5}},
    versions={"ecumene": "0.1.0"},
    world="main",
    history="h1",
    started_at="2025-01-01T00:00:00Z",
)


def test_a_manifest_comes_back_as_written(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST


def test_the_end_of_a_run_replaces_its_beginning_and_leaves_one_file(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    ended = dataclasses.replace(MANIFEST, state=RunState.DONE, ended_at="2025-01-01T00:01:00Z", counts={"turns": 5})
    path = write_manifest(tmp_path, ended)
    assert read_manifest(tmp_path) == ended
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "not found"),
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"run": "x"}', "incomplete"),
        ('{"schema_version": 99}', "newer version"),
        (json.dumps({**dataclasses.asdict(MANIFEST), "state": "lost"}), "incomplete"),
        ("[" * 100_000, "nested too deeply"),
        *(
            (json.dumps({**dataclasses.asdict(MANIFEST), name: wrong}), f"{name} is no ")
            for name, wrong in {
                **dict.fromkeys(("run", "state", "world", "history", "started_at", "note", "server", "ended_at"), 5),
                **dict.fromkeys(("seed", "schema_version", "first_revision", "over_nodes"), "x"),
                **dict.fromkeys(("versions", "counts"), "x"),
            }.items()
        ),
    ],
)
def test_a_bad_manifest_says_what_is_wrong(tmp_path: Path, text: str | None, problem: str) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError, match=problem):
        read_manifest(tmp_path)


def test_a_field_of_a_later_version_is_left_out(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, MANIFEST)
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "colour": "blue"}), encoding="utf-8")
    assert read_manifest(tmp_path) == MANIFEST


def test_a_spec_with_a_number_that_json_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_manifest(tmp_path, dataclasses.replace(MANIFEST, spec={"x": float("nan")}))
