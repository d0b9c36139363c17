"""`ecumene resume`: which directory is meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ecumene.cli.failures import UsageError
from ecumene.cli.resume import find_directory


def test_a_run_is_found_by_its_directory_or_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "guess-1").mkdir(parents=True)
    out = Path("runs")
    for given in (Path("guess-1"), Path("runs/guess-1"), tmp_path / "runs" / "guess-1"):
        assert find_directory(given, out).resolve() == tmp_path / "runs" / "guess-1"


def test_a_run_that_is_nowhere_is_told_with_the_newest_that_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="is at gone or runs/gone") as refused:
        find_directory(Path("gone"), Path("runs"))
    assert "no run was begun below runs" in refused.value.hint
    for age, name in enumerate(("new", "old", "no-run")):
        directory = tmp_path / "runs" / name
        directory.mkdir(parents=True)
        if name != "no-run":
            (directory / "manifest.json").write_text("{}")
        os.utime(directory, (1_000_000 - age, 1_000_000 - age))
    with pytest.raises(UsageError) as refused:
        find_directory(Path("gone"), Path("runs"))
    assert refused.value.hint == "the newest below runs is new"
