"""The shell's way through copies of worlds: snapshot, restore, fork, compact, tell what happened, check, upgrade."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ecumene.cli import app

from tests.journey.conftest import RunningServer
from tests.stored_worlds import unpack_world


@pytest.fixture
def ecumene(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """Runs a command line against the server; returns its lines, of JSON where it was asked for."""
    monkeypatch.setenv("ECUMENE_SERVER", server.address)

    def run(*arguments: str, code: int = 0, as_json: bool = True) -> Any:
        assert app.main([*arguments, *["--json"] * as_json]) == code
        printed = capsys.readouterr()
        if code:
            return printed.err
        return [json.loads(line) for line in printed.out.splitlines()] if as_json else printed.out

    return run


def offline(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ecumene.cli", "offline", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "COLUMNS": "200"})


def test_a_world_is_copied_and_told_of(ecumene: Callable[..., Any], server: RunningServer, tmp_path: Path) -> None:
    ecumene("env", "set", "/town")
    ecumene("env", "set", "/town", "mood", "calm")
    taken = ecumene("world", "snapshot", "main", "--to", "monday")[0]
    assert (taken["name"], taken["origin"]["revision"]) == ("monday", 3)
    ecumene("env", "set", "/town", "mood", "tense")
    assert "exists" in ecumene("world", "snapshot", "main", "--to", "monday", code=1)
    assert [one["name"] for one in ecumene("world", "snapshots")[0]] == ["monday"]
    restored = ecumene("world", "restore", "monday", "then")[0]
    assert restored["restored_from"] == taken["origin"]
    assert ecumene("env", "get", "/town", "mood", "--world", "then")[0]["value"] == "calm"
    forked = ecumene("world", "fork", "main", "what-if")[0]
    assert forked["revision"] == 4
    ecumene("env", "set", "/town", "mood", "cheerful", "--world", "what-if")
    assert ecumene("env", "get", "/town", "mood")[0]["value"] == "tense"

    assert [event["value"] for event in ecumene("env", "story", "/town", "mood") if event["key"]] == ["calm", "tense"]
    told = ecumene("env", "story", "/town", as_json=False)
    assert "made" in told
    assert "mood = calm (new)" in told
    assert "mood = tense" in told
    assert re.search(r" py-[0-9a-f]{8}… ", told)
    assert "main at 4" in ecumene("world", "list", as_json=False)
    assert [event["revision"] for event in ecumene("env", "story", "/town", "--since", "3", "--until", "3")] == [3]
    assert "2 earlier events are not shown" in ecumene("env", "story", "/town", "--limit", "1", as_json=False)
    assert "nothing happened" in ecumene("env", "story", "/nowhere", as_json=False)
    assert len(ecumene("env", "story", "/", "-r")) == 4

    assert ecumene("world", "compact", "--revision", "4")[0]["first_retained_revision"] == 4
    assert "no longer kept" in ecumene("env", "story", "/town", as_json=False)
    assert "no longer retained" in ecumene("env", "story", "/town", "--since", "2", code=1)
    assert "main cannot be deleted" in ecumene("world", "delete", "main", "--yes", code=1)
    assert "is open in process" in offline("verify", server.data).stderr
    ecumene("world", "rm-snapshot", "monday", "--yes")
    assert ecumene("world", "snapshots") == [[]]
    assert server.stop() == 0
    checked = offline("verify", server.data)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("whole") == 3
    dumped = offline("dump-log", server.data / "what-if", "--from", "5")
    assert [json.loads(line)["value"] for line in dumped.stdout.splitlines()] == ["cheerful"]
    assert offline("replay", server.data / "what-if", "--through", "3", "--into", server.data / "again").returncode == 0
    server.start()
    assert ecumene("env", "get", "/town", "mood", "--world", "again")[0]["value"] == "calm"


def test_a_world_of_an_earlier_version_is_upgraded_and_served(
    ecumene: Callable[..., Any], server: RunningServer
) -> None:
    assert server.stop() == 0
    unpack_world(1, "whole", server.data)
    command = [sys.executable, "-m", "env_server.server", "--data-dir", str(server.data), "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].startswith("error: ")
    assert f"run `ecumene offline upgrade {server.data / 'whole'}`" in refused.stderr
    assert offline("upgrade", server.data / "whole").returncode == 0
    server.start()
    assert ecumene("env", "get", "/town", "t1", "--world", "whole")[0]["value"] == 1
    assert ecumene("env", "get", "/town/vote", "--world", "whole")[0]["aggregate_values"]["votes"]["value"] == 1
    ecumene("env", "set", "/town", "since", "the upgrade", "--world", "whole")
    assert len(ecumene("env", "story", "/town", "since", "--world", "whole")) >= 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["env", "story", "/town", "mood", "--recursive"],
        ["env", "story", "/", "--since", "99"],
        ["env", "story", "/", "--limit", "-1"],
        ["world", "restore", "only-one-name"],
    ],
)
def test_wrong_usage_is_code_2_and_at_most_two_lines(ecumene: Callable[..., Any], arguments: list[str]) -> None:
    assert len(ecumene(*arguments, code=2).splitlines()) <= 2
