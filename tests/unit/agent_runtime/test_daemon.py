"""A node as a process: how it begins, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from ecumene import workflows

from agent_runtime.runtime import parse_arguments, read_settings
from agent_runtime.workflows.host_process import HostSettings
from tests.services import ROOT, ServerProcess
from tests.workflow_actors import Teller


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_node_hosts_actors_and_takes_their_host_along(tmp_path: Path, number: signal.Signals) -> None:
    with ServerProcess(tmp_path / "data") as server:
        flows = ["--workflow-module", "tests.workflow_actors", "--workflow-path", str(ROOT)]
        flows += ["--workflow-recording", str(tmp_path / "turns of actors")]
        node = start("--server", server.address, "--name", "a", "--scratch", str(tmp_path), *flows)
        assert node.stdout is not None
        assert json.loads(node.stdout.readline())["workflows"]
        with workflows.connect(server.address) as flow:
            (teller,) = flow.spawn(Teller, 1, host="a", retry=9)
            pid = teller.pid().get(timeout_s=20)
            assert psutil.Process(pid).ppid() == node.pid
            os.kill(pid, signal.SIGKILL)
            again = teller.pid().get(timeout_s=30)
            assert again != pid and psutil.Process(again).ppid() == node.pid
        node.send_signal(number)
        _, errors = node.communicate(timeout=60)
        deadline = time.monotonic() + 30
        while psutil.pid_exists(again):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert node.returncode == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert "workflow host a ended and is started again: exit code -9" in errors
    assert list((tmp_path / "turns of actors" / "turns").iterdir())


def test_a_node_whose_host_cannot_begin_says_why(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        node = start("--server", server.address, "--scratch", str(tmp_path), "--workflow-module", "no_such_module")
        out, errors = node.communicate(timeout=60)
    assert node.returncode == 1 and json.loads(out)["state"] == "failed"
    assert "cannot import 'no_such_module'" in errors and "Traceback" not in errors


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
        (["--spec", "x.json", "--workflow-module", "m"], "--spec: a launch hosts no workflows"),
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
    assert settings.workflows is None
    flows = ["--workflow-module", "m", "--workflow-module", "n", "--workflow-path", "p"]
    hosted = read_settings(parse_arguments(["--server", "s:1", *flows])).workflows
    assert hosted == HostSettings(["m", "n"], False, [Path("p")], None)
