"""`ecumene run`: which server it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ecumene.cli import app
from ecumene.cli import run as command
from ecumene.sim import RunOptions

SPEC = "name: s\npopulation: {groups: [{name: a, agent: random, count: 1}]}\n"


@pytest.mark.parametrize(
    ("arguments", "environment", "server"),
    [
        ([], "", None),
        (["--nodes"], "", "127.0.0.1:7170"),
        (["--nodes"], "127.0.0.1:7171", "127.0.0.1:7171"),
        (["--nodes", "--server", "127.0.0.1:7172"], "127.0.0.1:7171", "127.0.0.1:7172"),
    ],
)
def test_nodes_are_looked_for_where_other_commands_do(
    arguments: list[str], environment: str, server: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[RunOptions] = []
    monkeypatch.setattr(command, "execute", lambda spec, options, **_: taken.append(options))
    monkeypatch.delenv("ECUMENE_SERVER", raising=False)
    if environment:
        monkeypatch.setenv("ECUMENE_SERVER", environment)
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC, encoding="utf-8")
    assert app.main(["run", str(spec), *arguments]) in (0, None)
    found: Any = taken[0]
    assert (found.server, found.over_nodes) == (server, bool(arguments))
