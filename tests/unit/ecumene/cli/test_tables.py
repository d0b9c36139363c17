"""What commands print: whole cells where a program reads, JSON that is JSON."""

from __future__ import annotations

import json
import sys

import pytest
from ecumene.cli.tables import print_json, print_table, show_cell, show_count


def test_one_is_one() -> None:
    shown = [show_count(1, "entry", "entries"), show_count(2_000, "entry", "entries"), show_count(0, "part")]
    assert shown == ["1 entry", "2,000 entries", "0 parts"]


def test_a_table_for_a_program_cuts_no_cell(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("key", "value"), [("a", "x" * 300), ("b", "y")])
    shown = capsys.readouterr().out
    assert "x" * 300 in shown
    assert "\x1b" not in shown


def test_for_a_program_one_wide_cell_widens_no_other_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("key", "value"), [("a", "x" * 300), ("b", "y")])
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line != line.rstrip()] == []
    assert sum(len(line) > 120 for line in shown) == 1


@pytest.mark.parametrize("fold_last", [False, True])
def test_a_narrow_terminal_takes_no_column_away_and_cuts_no_number(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, fold_last: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    text = "abcdefghij" * 8
    print_table(("revision", "time", "who", "what"), [(1234567, "t" * 24, "w" * 36, text)], fold_last=fold_last)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert all(name in shown for name in ("revision", "time", "who", "what", "1,234,567"))
    assert (text in "".join(line.split()[-1] for line in shown.splitlines() if line.strip())) is fold_last


def test_a_cell_with_brackets_is_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("key",), [("[red]",)])
    assert "[red]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, "-"),
        (True, "true"),
        (1234567, "1,234,567"),
        (2 / 3, "0.666667"),
        (b"abc", "3 bytes"),
        ({"a": 1}, '{"a": 1}'),
    ],
)
def test_a_cell_is_text(cell: object, shown: str) -> None:
    assert show_cell(cell) == shown


def test_json_is_one_line_and_bytes_are_told_apart_from_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"raw": b"\x00\xff", "text": "späť\n"})
    shown = capsys.readouterr().out
    assert shown.count("\n") == 1
    assert json.loads(shown) == {"raw": {"base64": "AP8="}, "text": "späť\n"}
