"""The examples run against a real server and say what they should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.services import ROOT, ServerProcess

SAYS = {
    "chat_room.py": ("members: ada, bob, eve", "ada hears:\n  1. ada", "eve hears:\n  2. bob: Eve"),
    "auction.py": ("sold to bob for ", "a late bid is refused: closed"),
    "market.py": ("sells", "money and corn before (1500, 100), after (1500, 100)"),
    "guess_game.py": ("round 1: ", "round 3: "),
    "haggling_agents.py": ("runtime: ready", "round 3: ", "turns: {'ok': 12}"),
}


@pytest.mark.parametrize("name", SAYS)
def test_an_example_does_what_it_says(tmp_path: Path, name: str) -> None:
    with ServerProcess(tmp_path / "data") as server:
        command = [sys.executable, str(ROOT / "examples" / name), server.address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        for said in SAYS[name]:
            assert said in done.stdout, done.stdout
        assert server.stop() == 0


WORKFLOWS = {"debate.py", "debate_local.py", "debate_distributed.py", "guess_agentscope.py", "guess_workflow.py"}
"""Run, or imported by what is run, in test_workflow_examples.py."""


def test_every_program_among_the_examples_is_run() -> None:
    programs = {path.name for path in (ROOT / "examples").glob("*.py")}
    assert programs == set(SAYS) | WORKFLOWS
