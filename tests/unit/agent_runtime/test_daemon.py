"""A node as a process: how it begins, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_runtime.runtime import parse_arguments, read_settings
from tests.services import ServerProcess


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ecumene.cli", "runtime", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_ends_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with ServerProcess(tmp_path / "data") as server:
        node = start("--server", server.address, "--name", "a", "--scratch", str(tmp_path))
        assert node.stdout is not None
        ready = json.loads(node.stdout.readline())
        assert (ready["state"], ready["node"], ready["pid"]) == ("ready", "a", node.pid)
        assert ready["address"].startswith("127.0.0.1:")
        node.send_signal(number)
        out, errors = node.communicate(timeout=30)
    assert (node.returncode, json.loads(out), errors) == (0, {"state": "ended", "node": "a"}, "")


def test_a_world_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        node = start("--server", server.address, "--world", "nowhere", "--scratch", str(tmp_path))
        out, errors = node.communicate(timeout=30)
    assert node.returncode == 1
    assert json.loads(out)["state"] == "failed"
    assert len(errors.strip().splitlines()) == 1 and "nowhere" in errors


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--listen", "0.0.0.0:7180"], "give --insecure"),
        (["--listen", "here"], "is no host:port"),
        (["--label", "gpu"], "is no KEY=VALUE"),
        (["--name", "UP"], "--name"),
        (["--capacity", "0"], "at least 1"),
        (["--secret", "keys/mine"], "is no name of a variable, and no absolute path"),
        (["--secret", "A=B"], "is no name of a variable, and no absolute path"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments(["--server", "127.0.0.1:7170", *arguments])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err


def test_arguments_become_settings() -> None:
    arguments = ["--listen", "0.0.0.0:7180", "--insecure", "--label", "gpu=h200", "--label", "zone=x", "--name", "n.1"]
    arguments += ["--secret", "KEY", "--secret", "/keys/other", "--records", "/shared/records"]
    parsed = parse_arguments(["--server", "s:1", *arguments, "--capacity", "7", "--workers", "3"])
    settings = read_settings(parsed)
    assert (settings.secrets, settings.records) == ({"KEY", "/keys/other"}, Path("/shared/records"))
    plain = read_settings(parse_arguments(["--server", "s:1"]))
    assert (plain.secrets, plain.records) == (frozenset(), None)
    assert parsed.listen == ("0.0.0.0", 7180)
    assert (settings.name, settings.capacity, settings.workers) == ("n.1", 7, 3)
    assert settings.labels == {"gpu": "h200", "zone": "x"}
