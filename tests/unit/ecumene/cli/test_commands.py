"""The table of subcommands: unique, and one line for whatever cannot be loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ecumene.cli import commands
from ecumene.cli.failures import CliError


def test_names_are_unique_and_summaries_are_sentences() -> None:
    names = [row.name for row in commands.COMMANDS]
    assert len(names) == len(set(names))
    assert all(row.summary.endswith(".") and "\n" not in row.summary for row in commands.COMMANDS)


def test_a_missing_module_is_not_part_of_this_version() -> None:
    row = commands.Command("later", "ecumene.cli.no_such_module:run", "Later.")
    with pytest.raises(CliError, match="later is not part of this version"):
        commands.load_target(row)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to import from; what was imported is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_missing_package_names_the_extra_to_install(place: Path) -> None:
    (place / "planted_needs.py").write_text("import surely_not_installed\n", encoding="utf-8")
    row = commands.Command("run", "planted_needs:run", "Run.", "sim")
    with pytest.raises(CliError) as caught:
        commands.load_target(row)
    install = "pip install 'ecumene[sim]' (in a checkout: make install)"
    assert str(caught.value) == f"ecumene run needs the sim extra: {install}"


def test_a_missing_module_of_ours_is_a_defect(place: Path) -> None:
    (place / "planted_defect.py").write_text("import ecumene.surely_not_there\n", encoding="utf-8")
    with pytest.raises(ModuleNotFoundError):
        commands.load_target(commands.Command("run", "planted_defect:run", "Run.", "sim"))
