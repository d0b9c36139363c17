"""Every example of the page on populations works as it stands there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.csv
import pytest
from ecumene.cli import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "populations.md"
_FILE = re.compile(r"^```\w+ (?P<name>[\w.]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^ecumene (.*)$", re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all files of the page, which one works in."""
    for found in _FILE.finditer(PAGE.read_text(encoding="utf-8")):
        (tmp_path / found["name"]).write_text(found["text"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_command_works(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = _COMMAND.findall(PAGE.read_text(encoding="utf-8"))
    assert commands
    for command in commands:
        assert app.main(command.split()) == 0, capsys.readouterr().err
    people = pyarrow.csv.read_csv(folder / "people.csv").to_pylist()
    assert sum(row["group"] == "students" for row in people) == 500
    assert {row["age"] for row in people if row["group"] == "students"} == {20}
    assert not [row for row in people if row["age"] < 22 and row["education"] == "advanced degree"]
    code = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(next(block for block in code if "Graph" in block), str(PAGE), "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.splitlines()[-1].startswith("500 ")
    assert (folder / "people.html").stat().st_size > 1_000


def test_each_spec_fits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    specs = sorted(folder.glob("*.yaml"))
    assert len(specs) >= 3
    for spec in specs:
        assert app.main(["population", spec.name, "--seed", "1", "--json"]) == 0, capsys.readouterr().err
        fits = json.loads(capsys.readouterr().out)["attributes"]
        assert all(each["p"] > 1e-6 or each["is_changed"] for each in fits), spec.name


def test_marginals_of_the_table_are_met(folder: Path) -> None:
    assert app.main(["population", "table.yaml", "--out", "table.csv"]) == 0
    school = pyarrow.csv.read_csv(folder / "table.csv").column("education").to_pylist()
    assert [school.count(name) for name in ("primary school", "high school", "college")] == [100, 500, 400]
