"""Every example of the page on backgrounds works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from ecumene.cli import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "backgrounds.md"
_FILE = re.compile(r"^```\w+ (?P<name>[\w.]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^ecumene (.*)$", re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all files of the page, which one works in."""
    for found in _FILE.finditer(PAGE.read_text(encoding="utf-8")):
        (tmp_path / found["name"]).write_text(found["text"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_plays_with_what_was_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["run", "people.yaml"]) == 2
    assert "people.parquet is not there: ecumene background SPEC writes them" in capsys.readouterr().err
    commands = _COMMAND.findall(PAGE.read_text(encoding="utf-8"))
    assert [command.split()[0] for command in commands] == ["background", "run"]
    for command in commands:
        assert app.main(command.split()) == 0, capsys.readouterr().err
    written = pq.read_table("people.parquet").to_pylist()
    (profiles,) = folder.glob("runs/people-*/profiles.parquet")
    kept = pq.read_table(profiles).to_pylist()
    assert [row["background"] for row in kept] == [row["background"] for row in written]
    assert all(row["status"] == "complete" for row in written)
    code = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    capsys.readouterr()
    exec(compile(code[0], str(PAGE), "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.startswith("24 0.")


def test_without_a_model_nothing_has_to_be_called_before(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("plain", "own"):
        assert app.main(["check", f"{name}.yaml"]) == 0, capsys.readouterr()
        assert app.main(["background", f"{name}.yaml", "--out", f"{name}.parquet"]) == 0
        assert pq.read_table(f"{name}.parquet").num_rows == 24
    assert "lived in one town" in "".join(pq.read_table("own.parquet").column("background").to_pylist())


def test_the_example_runs_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = PAGE.parents[1] / "examples" / "guess_with_backgrounds.yaml"
    assert app.main(["run", str(example), "--out", str(tmp_path), "--json"]) == 0, capsys.readouterr().err
    (profiles,) = tmp_path.glob("*/profiles.parquet")
    assert all(pq.read_table(profiles).column("background").to_pylist())
