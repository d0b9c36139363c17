"""A model among the examples is run as its user runs it."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.services import ROOT


def play(*arguments: str) -> str:
    """What it says."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT / "examples" / "models", capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_tells_its_figures_beside_what_is_known() -> None:
    said = play("epidemic.py", "--graph", "florentine", "--seeds", "3", "--first-seed", "8", "--runtimes", "2")
    assert said.startswith("epidemic-florentine-0.2: 15 agents, seeds 8 to 10\nfigure ")
    assert re.search(r"^infected +\d+\.\d{4} +\d+\.\d{4} +\d+\.\d{4}  20,000 percolations$", said, re.MULTILINE)
    assert re.search(r"^\d+ steps, \d+ a second$", said, re.MULTILINE)
    assert re.search(r"^digest of all runs: [0-9a-f]{32}$", said, re.MULTILINE)


def test_every_model_can_be_asked_how_it_is_run() -> None:
    files = sorted(path.name for path in (ROOT / "examples" / "models").glob("*.py"))
    assert "stage.py" in files
    for file in files:
        if file != "stage.py":
            assert "--seeds" in play(file, "--help")
