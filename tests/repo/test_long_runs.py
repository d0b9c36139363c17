"""The parts of the long tests: every long test belongs to exactly one, and the page keeps one row a part."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.long_runs import ENVIRONMENTS, PARTS, ROOT, Run, find_python, main, with_run


def covered_by(file: Path) -> list[str]:
    relative = file.relative_to(ROOT).as_posix()
    return [
        part
        for part, places in PARTS.items()
        for place in places
        if relative == place or relative.startswith(place + "/")
    ]


def test_every_long_test_belongs_to_one_part() -> None:
    mark = "mark." + "long"
    files = [file for file in (ROOT / "tests").rglob("test_*.py") if mark in file.read_text(encoding="utf-8")]
    assert files
    assert {file.name: covered_by(file) for file in files if len(covered_by(file)) != 1} == {}


def test_every_part_names_what_exists() -> None:
    assert [place for places in PARTS.values() for place in places if not (ROOT / place).exists()] == []


def test_a_page_keeps_one_row_a_part_in_order() -> None:
    first, second = list(PARTS)[:2]
    page = with_run("", Run(second, "abc1234", "2026-01-02", "3 passed", 1.0))
    page = with_run(page, Run(first, "abc1234", "2026-01-02", "1 failed, 2 passed", 2.0))
    page = with_run(page, Run(second, "def5678+", "2026-01-03", "4 passed", 3.0))
    assert page.splitlines()[-2:] == [
        f"| {first} | abc1234 | 2026-01-02 | 1 failed, 2 passed | 2.0 |",
        f"| {second} | def5678+ | 2026-01-03 | 4 passed | 3.0 |",
    ]


def test_an_unknown_part_is_refused() -> None:
    assert main(["nonsense"]) == 2


def test_a_part_with_an_environment_of_its_own_runs_there_or_fails_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert ENVIRONMENTS.keys() <= PARTS.keys()
    monkeypatch.setattr("tests.long_runs.ROOT", tmp_path)
    assert find_python("vllm") == find_python("rest") == sys.executable
    own = tmp_path / ENVIRONMENTS["vllm"] / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.touch()
    assert find_python("vllm") == str(own)
    assert find_python("rest") == sys.executable
