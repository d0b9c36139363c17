"""The tutorial as a new user types it: each file as it stands, each command in its order, each line that is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"```(\w+)( file(\+?)=(\S+))?\n(.*?)```", re.DOTALL)


def read_steps(page: str) -> Iterator[tuple[str, str, bool, str]]:
    """What a block is: (file, its text, whether it is added to what is there, "") or ("", command, False, output)."""
    for _, file, added, name, text in BLOCK.findall(page):
        if file:
            yield name, text, bool(added), ""
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield "", command, False, shown


def find_missing(shown: str, output: str) -> list[str]:
    """Lines of the page that the output has not, in their order; … stands for any text."""
    place, missing = 0, []
    for line in filter(None, shown.splitlines()):
        found = re.compile(".*".join(map(re.escape, line.split("…")))).search(output, place)
        if found is None:
            missing.append(line)
        else:
            place = found.end()
    return missing


@pytest.mark.timeout(600)
def test_each_step_works_and_shows_what_the_page_says(tmp_path: Path) -> None:
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, module in (("ecumene", "-m ecumene.cli"), ("python", "")):
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n', encoding="utf-8")
        (commands / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "160"}
    folder, shown_lines = tmp_path, 0
    for name, text, is_added, shown in read_steps(PAGE.read_text(encoding="utf-8")):
        if name:
            with (folder / name).open("a" if is_added else "w", encoding="utf-8") as file:
                file.write(text)
            continue
        done = subprocess.run(
            text, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        assert find_missing(shown, done.stdout) == [], f"{text}\n{done.stdout}{done.stderr}"
        shown_lines += len(shown.splitlines())
        if text.startswith("cd "):
            folder /= text.removeprefix("cd ")
    assert shown_lines > 20
