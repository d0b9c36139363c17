"""A run that is cut short: Ctrl-C stops it cleanly, SIGKILL leaves no orphan, and both keep what was recorded."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from ecumene.client.records import TURNS, RunState, list_parts, read_manifest


def start_demo(out: Path) -> subprocess.Popen[str]:
    """A demo that would take long, once its first round is over."""
    command = [sys.executable, "-m", "ecumene.cli", "demo", "--agents", "50", "--rounds", "1000", "--out", str(out)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("round 1:"):
            return running
    pytest.fail(f"the demo ended with {running.wait()} before its first round was over")


def list_services(demo: subprocess.Popen[str]) -> list[psutil.Process]:
    """Everything that a demo started."""
    return psutil.Process(demo.pid).children(recursive=True)


def find_survivors(services: list[psutil.Process]) -> list[psutil.Process]:
    """Those that live on after ten seconds; a zombie that nobody waits for is dead."""
    _, alive = psutil.wait_procs(services, timeout=15)
    return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


def test_ctrl_c_stops_everything_keeps_everything_and_is_code_130(tmp_path: Path) -> None:
    demo = start_demo(tmp_path)
    services = list_services(demo)
    demo.send_signal(signal.SIGINT)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert "Traceback" not in errors
    assert len(services) >= 2
    assert find_survivors(services) == []
    (directory,) = tmp_path.iterdir()
    assert errors.splitlines()[-2:] == [
        f"ecumene: interrupted; what was recorded is in {directory}",
        f"  go on with it: ecumene resume {directory}",
    ]
    manifest = read_manifest(directory)
    assert manifest.state == RunState.INTERRUPTED
    assert manifest.counts["turns"] >= 50
    assert (directory / "rounds.png").exists()


def test_an_impatient_user_gets_the_same_without_a_traceback(tmp_path: Path) -> None:
    demo = start_demo(tmp_path)
    services = list_services(demo)
    while demo.poll() is None:
        demo.send_signal(signal.SIGINT)
        time.sleep(0.02)
    _, errors = demo.communicate(timeout=60)
    # The last of them may have come when nothing was left but the end of the interpreter: 130 as well, to a shell.
    assert demo.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in errors and "ecumene: interrupted; what was recorded is in" in errors
    assert find_survivors(services) == []
    (directory,) = tmp_path.iterdir()
    assert read_manifest(directory).state == RunState.INTERRUPTED


def test_a_killed_demo_leaves_no_service_behind_and_its_parts_are_whole(tmp_path: Path) -> None:
    demo = start_demo(tmp_path)
    services = list_services(demo)
    demo.kill()
    demo.communicate(timeout=60)
    assert find_survivors(services) == []
    (directory,) = tmp_path.iterdir()
    assert read_manifest(directory).state == RunState.RUNNING
    assert list_parts(directory, TURNS)
