"""`ecumene report`: one page, where it was asked for, and one line about it."""

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


def test_the_page_lies_in_the_run_unless_told_otherwise(
    run_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("report", run_directory) == 0
    page = run_directory / "report.html"
    assert capsys.readouterr().out == f"report: {page}\n"
    assert call("report", run_directory, "--out", tmp_path / "Zürich 東京.html", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert Path(told["report"]).stat().st_size == told["bytes"] > 1_000
    assert "has not ended" in page.read_text(encoding="utf-8")


def test_a_directory_that_is_none_of_a_run_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("report", tmp_path) == 1
    assert "neither a manifest nor any turn" in capsys.readouterr().err
    (tmp_path / "manifest.json").write_text("{")
    assert call("report", tmp_path) == 1
    assert "manifest.json: not JSON" in capsys.readouterr().err


def test_a_page_that_cannot_be_written_is_told(
    run_directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("report", run_directory, "--out", tmp_path / "no" / "page.html") == 1
    assert "page.html" in capsys.readouterr().err


def test_the_browser_is_opened_only_if_asked(run_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    for choice, count in (("no", 0), ("auto", 0), ("yes", 1)):
        assert call("report", run_directory, "--open", choice) == 0
        assert len(opened) == count
    assert opened[0].startswith("file://")
