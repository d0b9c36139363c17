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


def test_models_tell_what_they_can_be_asked() -> None:
    for file, option in (("epidemic.py", "--r0"), ("traffic.py", "--crossing"), ("wealth_grid.py", "--halves")):
        said = play(file, "--help")
        assert option in said and "--runtimes" in said


def test_every_model_is_validated() -> None:
    models = {path.stem for path in (ROOT / "examples" / "models").glob("*.py")} - {"stage"}
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "validation").glob("test_*.py")}
    assert models <= tests and len(models) >= 9
