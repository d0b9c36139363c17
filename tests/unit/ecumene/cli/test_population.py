"""`ecumene population`: tables, files and JSON; what cannot be drawn is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from ecumene.cli import app

SPEC = """name: people
population:
  groups: [{name: a, agent: random, count: 3}, {name: b, agent: random, count: 1}]
  attributes:
    city: {categories: {"東京": 0.5, "Łódź": 0.5}}
    age: {template: age}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC, encoding="utf-8")
    return path


def test_files_and_tables_are_written(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "fit.html"
    for name in ("agents.csv", "agents.parquet"):
        assert app.main(["population", str(spec), "--out", str(tmp_path / name), "--report", str(page)]) == 0
    told = capsys.readouterr().out
    assert "4 agents, seed 0, sampling quota; groups: a 3, b 1" in told
    assert f"report: {page}" in told
    csv, parquet = pyarrow.csv.read_csv(tmp_path / "agents.csv"), pq.read_table(tmp_path / "agents.parquet")
    assert csv.column_names == parquet.column_names == ["agent", "group", "city", "age"]
    assert csv.column("city").to_pylist() == parquet.column("city").to_pylist() != []
    assert "東京" in page.read_text(encoding="utf-8")


def test_size_and_seed_may_be_others(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["population", str(spec), "--size", "1000", "--seed", "7", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["agents"], document["seed"], document["groups"]) == (1_000, 7, {"a": 750, "b": 250})
    assert [each["fits"] for each in document["attributes"]] == [True, True]
    assert max(each["deviation"] for each in document["attributes"]) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("changed", "arguments", "told"),
    [
        (("0.5, ", "0.7, "), [], "line 5: population.attributes.city: the shares sum to 1.2, not to 1"),
        (
            ("template: age", "file: none.txt"),
            [],
            "population.attributes.age.file: none.txt cannot be read: No such file",
        ),
        (("", ""), ["--out", "x.xls"], "--out x.xls: must end in .csv or .parquet"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    changed: tuple[str, str], arguments: list[str], told: str, spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec.write_text(SPEC.replace(*changed) if changed[0] else SPEC, encoding="utf-8")
    assert app.main(["population", str(spec), *arguments]) == 2
    assert told in capsys.readouterr().err
