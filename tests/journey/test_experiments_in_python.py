"""An experiment in twenty lines of Python: in a script, in a notebook's loop, and with the first progress soon."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from ecumene.sim import RunSpec, SpecError, run, sync

PAGE = Path(__file__).resolve().parents[2] / "docs" / "specs.md"
SPEC = {"name": "mine", "population": {"groups": [{"name": "a", "agent": "random", "count": 5}]}, "game": {"rounds": 1}}


def test_the_script_of_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    (script,) = re.findall(r"```python\n(from ecumene.sim import sync\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert script.count("\n") <= 20
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4 and all(re.match(r"\{'game.ratio'", line) for line in lines)


async def test_a_mapping_and_a_path_are_specs_also_in_a_running_loop(tmp_path: Path) -> None:
    recording = {"directory": str(tmp_path / "runs")}
    outcome = await run(SPEC | {"recording": recording})
    assert [one.reported for one in outcome.rounds] == [5]
    path = tmp_path / "spec.yaml"
    path.write_text(
        f"name: x\npopulation: {{groups: [{{name: a, agent: random, count: 3}}]}}\ngame: {{rounds: 1}}\n"
        f"recording: {{directory: {tmp_path / 'runs'}}}\n",
        encoding="utf-8",
    )
    assert [one.reported for one in sync.run(str(path)).rounds] == [3]
    with pytest.raises(SpecError):
        sync.run({"name": "X"})
    assert isinstance(RunSpec.model_validate(SPEC), RunSpec)


def test_the_first_progress_of_a_hundred_agents_comes_within_two_seconds_of_work(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "name: hundred\npopulation: {groups: [{name: a, agent: random, count: 100}]}\ngame: {rounds: 1}\n"
        f"recording: {{directory: {tmp_path / 'runs'}}}\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "ecumene.cli", "run", str(spec)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    first = running.stderr.readline()
    took = psutil.Process(running.pid).cpu_times()
    _, later = running.communicate(timeout=60)
    assert first == "drawing the population\n"
    assert later.startswith("starting the server\n")
    assert took.user + took.system < 2.0
