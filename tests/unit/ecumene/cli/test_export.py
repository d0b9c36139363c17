"""`ecumene export`: what is asked wrongly is told before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ecumene.cli.app import main
from ecumene.client.records import RunManifest, RunState, write_manifest


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    """A run that recorded nothing yet."""
    directory = tmp_path / "run"
    directory.mkdir()
    known: dict[str, Any] = {"seed": 1, "spec": {}, "versions": {}, "world": "", "history": ""}
    write_manifest(directory, RunManifest("r", RunState.RUNNING, started_at="2026-01-01T00:00:00Z", **known))
    return directory


def call(*arguments: str | Path) -> int:
    """Run the command; its exit code."""
    return main([str(argument) for argument in arguments])


def test_files_are_told_for_programs(run_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert call("export", run_directory, "--out", out, "--format", "json", "--table", "turns", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told == [{"table": "turns", "path": str(out / "turns.jsonl"), "rows": 0}]
    assert (out / "turns.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--format", "xlsx"), ("'xlsx' is no format", "csv, json, parquet")),
        (("--table", "turn"), ("'turn' is no table", "turns, actions, calls, events")),
    ],
)
def test_what_is_not_known_is_told_with_what_is(
    run_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: Any, words: Any
) -> None:
    assert call("export", run_directory, "--out", tmp_path / "out", *options) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in words)
    assert len(told.splitlines()) == 2
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_told(
    run_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert call("export", run_directory, "--out", tmp_path / "file") == 1
    assert "file" in capsys.readouterr().err
