"""A sweep as a user runs it: the same seed gives the same runs, replicates differ, and a killed one is gone on with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ecumene.cli import app
from ecumene.client.records import read_manifest
from ecumene.client.records.digest import digest_turns

SPEC = """\
name: sweep
seed: 11
population:
  groups: [{name: a, agent: noisy-level-k, count: 12, parameters: {level: 1, deviation: 5}}]
game: {rounds: ROUNDS, deadline_s: 60}
recording: {directory: OUT}
sweep: {replicates: 2, parallel: 2}
"""


def write_spec(folder: Path, out: str, rounds: int = 2) -> Path:
    path = folder / f"{out}.yaml"
    path.write_text(SPEC.replace("OUT", str(folder / out)).replace("ROUNDS", str(rounds)), encoding="utf-8")
    return path


def read_sweep(folder: Path) -> tuple[Path, dict[str, Any]]:
    (directory,) = folder.iterdir()
    return directory, json.loads((directory / "sweep.json").read_text(encoding="utf-8"))


def test_the_same_seed_gives_the_same_runs_and_replicates_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digests = []
    for out in ("first", "second"):
        assert app.main(["run", str(write_spec(tmp_path, out))]) in (0, None)
        directory, sweep = read_sweep(tmp_path / out)
        assert [one["state"] for one in sweep["runs"]] == ["done", "done"] and sweep["state"] == "done"
        digests.append([digest_turns(directory / one["directory"]) for one in sweep["runs"]])
    assert digests[0] == digests[1]
    assert len(set(digests[0])) == 2
    told = capsys.readouterr().err
    assert "run 2 of 2 (replicate 2) done: 2 rounds, means" in told


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_was_cut_short_keeps_everything_and_goes_on(tmp_path: Path, ends: signal.Signals) -> None:
    spec = write_spec(tmp_path, "out", rounds=200)
    command = [sys.executable, "-m", "ecumene.cli", "run", str(spec)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("run 2 of 2 (replicate 2) begins"):
            break
    running.send_signal(ends)
    _, errors = running.communicate(timeout=60)
    directory, sweep = read_sweep(tmp_path / "out")
    if ends is signal.SIGINT:
        assert running.returncode == 130, errors
        assert errors.splitlines()[-1] == f"  go on with it: ecumene resume {directory}"
        assert sweep["state"] == "interrupted"
        assert {one["state"] for one in sweep["runs"]} <= {"interrupted", "pending"}
    assert app.main(["resume", str(directory), "--json"]) in (0, None)
    _, sweep = read_sweep(tmp_path / "out")
    assert [one["state"] for one in sweep["runs"]] == ["done", "done"]
    assert app.main(["resume", str(directory)]) == 2


def test_a_run_that_a_condition_ends_is_done_and_says_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.yaml"
    text = SPEC.replace("OUT", str(tmp_path / "out")).replace("ROUNDS", "50")
    path.write_text(text.rpartition("sweep:")[0] + "stop: {mean_below: 20}\n", encoding="utf-8")
    assert app.main(["run", str(path), "--json"]) in (0, None)
    told = json.loads(capsys.readouterr().out)
    assert told["ended_by"].startswith("mean_below 20: the mean of round ")
    assert len(told["rounds"]) < 10 and told["rounds"][-1]["mean"] < 20 <= told["rounds"][-2]["mean"]
    manifest = read_manifest(Path(told["directory"]))
    assert (manifest.state, manifest.ended_by) == ("done", told["ended_by"])
    assert app.main(["resume", told["directory"]]) == 2


@pytest.mark.parametrize("is_sweep", [False, True])
def test_stop_from_another_terminal_keeps_everything_and_is_the_same_when_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_sweep: bool
) -> None:
    spec = write_spec(tmp_path, "out", rounds=200)
    if not is_sweep:
        spec.write_text(spec.read_text(encoding="utf-8").rpartition("sweep:")[0], encoding="utf-8")
    command = [sys.executable, "-m", "ecumene.cli", "run", str(spec)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("run 1 of 2" if is_sweep else "round 1:"):
            break
    (directory,) = (tmp_path / "out").iterdir()
    assert app.main(["stop", directory.name, "--out", str(tmp_path / "out")]) in (0, None)
    assert capsys.readouterr().out.splitlines() == [
        f"{directory}: stopped, its state is interrupted",
        f"go on with it: ecumene resume {directory}",
    ]
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "stopped on request" in errors and "Traceback" not in errors
    assert app.main(["stop", str(directory), "--json"]) in (0, None)
    told = json.loads(capsys.readouterr().out)
    assert told == {"directory": str(directory), "was_running": False, "state": "interrupted"}
