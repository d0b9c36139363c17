"""The examples of workflows: one line apart, and equal in what they say."""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.services import ROOT, ServerProcess
from tests.workflow_hosts import HostChild

EXAMPLES = ROOT / "examples"
MODULES = ("--module", "debate", "--module", "guess_workflow")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with two hosts that find the classes of the examples."""
    with ServerProcess(tmp_path_factory.mktemp("examples") / "data") as server:
        hosts = [HostChild(server.address, name, "--path", str(EXAMPLES), *MODULES) for name in ("ann", "bob")]
        for host in hosts:
            host.wait_ready()
        yield server.address
        assert [host.stop() for host in hosts] == [0, 0]


def run(script: str, *arguments: str, address: str = "", python: str = sys.executable) -> str:
    environment = {**os.environ, "ECUMENE_SERVER": address}
    command = [python, str(EXAMPLES / script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_before_and_after_differ_by_one_line() -> None:
    before, after = ((EXAMPLES / f"debate_{name}.py").read_text().splitlines() for name in ("local", "distributed"))
    changed = [line for line in difflib.ndiff(before, after) if line[:1] in "+-"]
    assert [line[:1] for line in changed] == ["-", "+"], changed
    assert ".to_dist()" in changed[1]


def test_before_and_after_say_the_same(address: str) -> None:
    here, there = run("debate_local.py"), run("debate_distributed.py", address=address)
    assert here == there
    assert len(here.splitlines()) > 3 and "round 3:" in here


def test_the_ported_script_says_the_same_here_and_there(address: str) -> None:
    here, there = run("guess_workflow.py", "local"), run("guess_workflow.py", address)
    assert here == there
    assert "the last mean was 18.46" in here


@pytest.mark.long
def test_the_script_that_was_ported_says_the_same_in_its_own_system(
    missing_toolchain: Callable[[str], NoReturn], tmp_path: Path
) -> None:
    python = os.environ.get("ECUMENE_AGENTSCOPE_PYTHON") or shutil.which("agentscope-python")
    if not python or not Path(python).exists():
        missing_toolchain("ECUMENE_AGENTSCOPE_PYTHON: an interpreter with agentscope==0.1.1 and tqdm")
    told = run("guess_agentscope.py", "local", python=python)
    assert [line for line in told.splitlines() if line.startswith(("round", "the last"))] == run(
        "guess_workflow.py", "local"
    ).splitlines()
