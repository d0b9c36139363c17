"""A model among the examples is run as its user runs it."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scipy import stats

from tests.services import ROOT

MODELS = ROOT / "examples" / "models"
IN_THE_BACKGROUND = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
"""As a script's shell starts what ends in an ampersand: it ignores Ctrl-C."""


def play(*arguments: str) -> str:
    """What it says."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=MODELS, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_tells_its_figures_beside_what_is_known() -> None:
    said = play("epidemic.py", "--graph", "florentine", "--seeds", "3", "--first-seed", "8", "--runtimes", "2")
    assert said.startswith("epidemic-florentine-0.2: 15 agents, seeds 8 to 10\nfigure ")
    assert re.search(r"^infected +\d+\.\d{4} +\d+\.\d{4} +\d+\.\d{4}  20,000 percolations$", said, re.MULTILINE)
    assert re.search(r"^\d+ steps, \d+ a second$", said, re.MULTILINE)
    assert re.search(r"^digest of all runs: [0-9a-f]{32}$", said, re.MULTILINE)


def test_figures_are_written_a_row_a_run_and_drawn(tmp_path: Path) -> None:
    table, plot = tmp_path / "figures.csv", tmp_path / "figures.png"
    options = ("--graph", "florentine", "--seeds", "3", "--csv", str(table), "--plot", str(plot))
    said = play("epidemic.py", *options)
    assert "\ninfected: people who were ever infected" in said, "what a figure is"
    rows = [line.split(",") for line in table.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["seed", "infected", "steps", "digest"] and [row[0] for row in rows[1:]] == ["1", "2", "3"]
    mean = sum(float(row[1]) for row in rows[1:]) / 3
    assert re.search(rf"^infected +{mean:.4f} ", said, re.MULTILINE)
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_models_tell_what_they_are_and_can_be_asked() -> None:
    for file, option, figure in (
        ("epidemic.py", "--r0", "share infected: "),
        ("traffic.py", "--crossing", "flow: "),
        ("wealth_grid.py", "--halves", "gini: "),
        ("dilemma.py", "--plot", "each strategy: "),
    ):
        said = play(file, "--help")
        assert option in said and "--runtimes" in said and f"\nfigures:\n  {figure}" in said
        assert f"python examples/models/{file}" in said, "what the file says of itself"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("epidemic.py", "--r0=-1"), "argument --r0: '-1' is no number from 0.01 to 100"),
        (("epidemic.py", "--r0=nan"), "argument --r0: 'nan' is no number from 0.01 to 100"),
        (("epidemic.py", "--graph=karate", "--chance=2"), "argument --chance: '2' is no number from 0 to 1"),
        (("epidemic.py", "--graph=karate", "--r0=2"), "with --graph give --chance"),
        (("epidemic.py", "--chance=0.5"), "without one give --r0"),
        (("traffic.py", "--cars=60"), "a road of 60 places has none to drive on to with 60"),
        (("wealth.py", "--runtimes=101"), "argument --runtimes: 101 are too many for 100 agents"),
        (("wealth.py", "--csv=nowhere/x.csv"), "there is no folder nowhere to write x.csv in"),
        (("wealth.py", "--plot=x.jpg"), "'x.jpg' ends in none of .png, .svg, .pdf"),
        (("town.py", "--residents=0"), "argument --residents: '0' is no whole number above 0"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line_before_anything_starts(options: tuple[str, ...], problem: str) -> None:
    done = subprocess.run([sys.executable, *options], cwd=MODELS, capture_output=True, text=True, timeout=110)
    assert done.returncode == 2
    assert done.stderr.endswith(f"{problem}\n") and "starting" not in done.stderr


def test_every_model_is_validated() -> None:
    models = {path.stem for path in (ROOT / "examples" / "models").glob("*.py")} - {"stage", "intervals", "playing"}
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "validation").glob("test_*.py")}
    assert models <= tests and len(models) >= 9


@pytest.mark.parametrize("option", ["--seeds", "--runtimes", "--workers"])
@pytest.mark.parametrize("count", ["0", "-1", "two"])
def test_a_count_that_cannot_be_is_refused_in_a_line(option: str, count: str) -> None:
    command = [sys.executable, "epidemic.py", f"{option}={count}"]
    done = subprocess.run(command, cwd=MODELS, capture_output=True, text=True, timeout=110)
    assert done.returncode == 2
    assert done.stderr.endswith(f"error: argument {option}: '{count}' is no whole number above 0\n")


@pytest.mark.parametrize(
    ("shell", "options", "made"),
    [
        ((), ("epidemic.py", "--graph", "florentine", "--seeds", "100000"), "models-*/launch-0.json"),
        (IN_THE_BACKGROUND, ("town.py", "--days", "10000"), "town-*/launch.json"),
    ],
)
def test_a_model_that_is_told_to_stop_leaves_nothing(
    tmp_path: Path, shell: tuple[str, ...], options: tuple[str, ...], made: str
) -> None:
    command = [*shell, sys.executable, *options]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, cwd=MODELS, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert process.stderr.readline() == b"starting a server and a runtime ...\n"
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(made)) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    try:
        assert b"Traceback" not in process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 130
    assert not list(tmp_path.glob(made.split("/")[0]))


def test_intervals_are_students() -> None:
    spec = importlib.util.spec_from_file_location("intervals", MODELS / "intervals.py")
    assert spec is not None and spec.loader is not None
    intervals = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(intervals)
    for degrees in (1, 2, 3, 4, 9, 30, 999):
        for confidence in (0.5, 0.95, 0.99):
            expected = stats.t.ppf((1 + confidence) / 2, degrees)
            assert intervals.quantile_of_t(confidence, degrees) == pytest.approx(expected, rel=1e-9)
    assert intervals.compute_half_width([1.0, 3.0]) == pytest.approx(12.7062047)
    assert intervals.compute_half_width([1.0]) is None
