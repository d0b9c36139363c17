"""Each fact is read once, wherever its parts lie and whatever they are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ecumene.client.records import ACTIONS, CUT_SHORT, TURNS, list_parts
from ecumene.sim.recordings import RecordingError, open_recording, quote


def ask(directory: Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows of an answer."""
    with open_recording([directory]) as recording:
        return recording.ask(sql)


def test_a_row_that_stands_twice_counts_once_and_the_later_part_is_right(record_run: Any) -> None:
    record_run([("a", 1, "error", None, True), ("b", 1, "ok", 20.0, True)])
    directory = record_run([("a", 1, "ok", 30.0, True), ("b", 1, "ok", 21.0, True)])
    assert ask(directory, "SELECT agent, status FROM turns ORDER BY agent") == [("a", "ok"), ("b", "ok")]
    assert ask(directory, "SELECT value_double FROM actions ORDER BY agent") == [(30.0,), (21.0,)]


def test_a_turn_that_was_cut_short_counts_only_if_there_is_no_other(record_run: Any) -> None:
    record_run([("a", 1, "ok", 30.0, True)])
    cut = ("cancelled", None, False, CUT_SHORT[0])
    directory = record_run([("a", 1, *cut), ("b", 1, *cut)])
    assert ask(directory, "SELECT agent, status FROM turns ORDER BY agent") == [("a", "ok"), ("b", "cancelled")]


def test_wildcards_and_quotes_in_a_path_are_names(record_run: Any, tmp_path: Path) -> None:
    odd = tmp_path / "a[b]*? 'c\" Zürich 東京"
    record_run([("a", 1, "ok", 30.0, True)]).rename(odd)
    assert ask(odd, "SELECT count(*) FROM turns") == [(1,)]


def test_a_column_that_older_parts_lack_is_null(record_run: Any) -> None:
    directory = record_run([("a", 1, "ok", 30.0, True)])
    (part,) = list_parts(directory, TURNS)
    pq.write_table(pq.read_table(part).drop_columns(["method", "observed_at_ns"]), part)
    assert ask(directory, "SELECT agent, method, observed_at_ns FROM turns") == [("a", None, None)]
    record_run([("b", 1, "ok", 30.0, True)])
    assert len(ask(directory, "SELECT agent, method FROM turns")) == 2


def test_what_was_never_recorded_is_an_empty_table(tmp_path: Path) -> None:
    assert ask(tmp_path, "SELECT count(*), max(revision) FROM events") == [(0, None)]


@pytest.mark.parametrize("kept", [0, 100])
def test_a_damaged_part_is_told_by_name(record_run: Any, kept: int) -> None:
    directory = record_run([("a", 1, "ok", 30.0, True)])
    (part,) = list_parts(directory, ACTIONS)
    part.write_bytes(part.read_bytes()[:kept])
    with pytest.raises(RecordingError, match=part.name):
        ask(directory, "SELECT * FROM turns")


def test_damage_behind_the_footer_is_told(record_run: Any) -> None:
    directory = record_run([("a", 1, "ok", 30.0, True)] * 50)
    (part,) = list_parts(directory, TURNS)
    content = bytearray(part.read_bytes())
    content[4:400] = b"\xff" * 396
    part.write_bytes(content)
    with pytest.raises(RecordingError, match="cannot be read"):
        ask(directory, "SELECT * FROM turns")


def test_a_name_is_a_name_whatever_it_holds() -> None:
    with open_recording([]) as recording:
        name = "a \"b\" 'c'; drop"
        recording.add_table("t", pa.table({name: [1]}))
        assert recording.ask(f"SELECT {quote(name)} FROM t") == [(1,)]
