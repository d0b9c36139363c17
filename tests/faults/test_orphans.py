"""A program that starts a server, a node with workers and a host of workflows, and ends in any way: nothing is left."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.faults.family_child import WORKERS
from tests.services import ROOT

GONE_S = 20.0


@pytest.mark.timeout(180)
@pytest.mark.parametrize("end", ["killed", "terminated", "raises", "leaves at once"])
def test_nothing_outlives_a_program_however_it_ends(tmp_path: Path, end: str) -> None:
    command = [sys.executable, "-m", "tests.faults.family_child", str(tmp_path), end]
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    assert program.stdin is not None and program.stdout is not None
    try:
        line = program.stdout.readline()
        assert line, (tmp_path / "log").read_text()
        started = [psutil.Process(pid) for pid in json.loads(line)]
        family = {*started, *psutil.Process(program.pid).children(recursive=True)}
        assert len(family) >= 3 + WORKERS
        program.stdin.write(b"go on\n")
        program.stdin.flush()
        if end == "killed":
            program.kill()
        elif end == "terminated":
            program.terminate()
        program.wait(GONE_S)
        wait_gone(family)
    finally:
        program.kill()
        program.communicate()


def wait_gone(family: set[psutil.Process]) -> None:
    """Until none of them runs; a zombie that nobody waits for has ended."""
    deadline_s = time.monotonic() + GONE_S
    while left := [one for one in family if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < deadline_s, [one.cmdline() for one in left]
        time.sleep(0.05)
