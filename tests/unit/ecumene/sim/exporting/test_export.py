"""Exports hold each fact once, in the order of ids, and appear whole."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ecumene.client.records import ACTIONS, TABLES, TURNS, list_parts
from ecumene.sim.exporting import FORMATS, export_tables
from ecumene.sim.recordings import RecordingError

NAMES = ["Nuku‘alofa", "القاهرة", "東京", "Ærøskøbing", "👩‍🚀", 'a,"b"\nc', "=1+1"]


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of an exported file."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


@pytest.mark.parametrize("file_format", FORMATS)
def test_every_name_comes_back_once_in_the_order_of_ids(record_run: Any, tmp_path: Path, file_format: str) -> None:
    record_run([(name, number, "error", None, False) for name in NAMES for number in (2, 1)])
    directory = record_run([(name, number, "ok", 1.5, True) for number in (1, 2) for name in reversed(NAMES)])
    written = export_tables(directory, tmp_path / "out", file_format=file_format)
    assert [(one.table, one.rows) for one in written] == [
        ("turns", 14),
        ("actions", 14),
        ("calls", 0),
        ("events", 0),
        ("surveys", 0),
    ]
    rows = read(written[0].path)
    ids = [(row["agent"], int(row["turn"])) for row in rows]
    assert ids == sorted(
        ((name, number) for name in NAMES for number in (1, 2)), key=lambda row: (row[0].encode(), row[1])
    )
    assert {row["status"] for row in rows} == {"ok"}
    assert {float(row["value_double"]) for row in read(written[1].path)} == {1.5}


@pytest.mark.parametrize("file_format", FORMATS)
def test_the_same_rows_in_other_parts_give_the_same_file(record_run: Any, tmp_path: Path, file_format: str) -> None:
    turns = [(f"agent-{number % 50:02d}", number // 50 + 1, "ok", number / 7, True) for number in range(300)]
    whole = record_run(turns)
    first = export_tables(whole, tmp_path / "one", file_format=file_format)
    whole.rename(tmp_path / "other")
    for start in range(270, -1, -30):
        directory = record_run(turns[start : start + 30][::-1])
    second = export_tables(directory, tmp_path / "two", file_format=file_format)
    assert [one.path.read_bytes() for one in first] == [two.path.read_bytes() for two in second]


def test_csv_tells_nothing_from_an_empty_text(record_run: Any, tmp_path: Path) -> None:
    directory = record_run([("", 1, "ok", 1.0, True)])
    (written,) = export_tables(directory, tmp_path, file_format="csv", tables=[TURNS])
    line = written.path.read_text(encoding="utf-8").split("\n")[1]
    assert line.startswith('r,"",,1,1,')


def test_a_failed_export_leaves_the_older_file_and_nothing_else(record_run: Any, tmp_path: Path) -> None:
    directory = record_run([("a", 1, "ok", 1.0, True)])
    out = tmp_path / "out"
    (before,) = export_tables(directory, out, file_format="csv", tables=[TURNS])
    content = before.path.read_bytes()
    (part,) = list_parts(directory, ACTIONS)
    part.write_bytes(b"")
    with pytest.raises(RecordingError):
        export_tables(directory, out, file_format="csv")
    assert [path.name for path in out.iterdir()] == ["turns.csv"]
    assert before.path.read_bytes() == content


def test_a_sweeps_rows_say_of_which_run_replicate_and_values_they_are(record_sweep: Any, tmp_path: Path) -> None:
    sweep = record_sweep({"1/2": [[10.0, 20.0], [12.0, 22.0]], "2/3": [[30.0, 40.0]]})
    written = export_tables(sweep, tmp_path / "out", file_format="parquet")
    rows = read(written[1].path)
    found = [(row["game.ratio"], row["replicate"], row["value_double"]) for row in rows]
    assert found == [
        ("1/2", 1, 10.0),
        ("1/2", 1, 20.0),
        ("1/2", 2, 12.0),
        ("1/2", 2, 22.0),
        ("2/3", 1, 30.0),
        ("2/3", 1, 40.0),
    ]
    assert len({row["run"] for row in rows}) == 3


def test_every_table_says_what_names_its_rows() -> None:
    for table in TABLES:
        assert set(table.ids) <= table.column_names
        assert table.ids[0] == "run"
