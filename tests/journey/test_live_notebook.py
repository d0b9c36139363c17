"""The notebook that attaches to a run: each cell, in order, beside a run that goes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import nbformat
import pytest
from ecumene.client.records import digest_turns
from ecumene.sim import RunNotLiveError, find_live_world
from ecumene.sim.specs.yaml_reading import read_yaml
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.timeout(300)
def test_each_cell_works_beside_a_run_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document, _ = read_yaml((EXAMPLES / "rumour.yaml").read_text(encoding="utf-8"))
    document |= {"population": {"groups": [{"name": "people", "agent": "rumour:Stroller", "count": 25}]}}
    document["experiment"] |= {"until": "2d", "every": "8h"}
    del document["stop"]
    found = os.pathsep.join(filter(None, [str(EXAMPLES), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTHONPATH", found)
    directories = []
    for name in ("watched", "alone"):
        spec = tmp_path / f"{name}.yaml"
        spec.write_text(json.dumps(document | {"recording": {"directory": str(tmp_path / name)}}), encoding="utf-8")
        command = [sys.executable, "-m", "ecumene.cli", "run", str(spec)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
            assert running.stderr is not None
            if name == "watched":
                outputs = run_notebook(tmp_path / name, running.stderr, monkeypatch)
            told = running.stderr.read()
            assert running.wait(120) == 0, told
        (directory,) = (tmp_path / name).iterdir()
        directories.append(directory)
    assert "rumour with seed 1" in outputs and "round 5 {'until': '2d', 'knowing': " in outputs
    assert "the run is done" in outputs and "ENTRY_" in outputs
    assert digest_turns(directories[0]) == digest_turns(directories[1])
    with pytest.raises(RunNotLiveError):
        find_live_world(directories[0])


def run_notebook(runs: Path, told: IO[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Execute all cells as soon as the run has begun; returns what they print. Raises CellExecutionError."""
    monkeypatch.setenv("ECUMENE_RUNS", str(runs))
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = nbformat.read(EXAMPLES / "live_run.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    client = NotebookClient(notebook, timeout=200, kernel_name="python3")
    with client.setup_kernel():
        while "agents play" not in (line := told.readline()):
            assert line, "the run has ended before it began"
        for place, cell in enumerate(notebook.cells):
            client.execute_cell(cell, place)
    return json.dumps([cell.get("outputs", []) for cell in notebook.cells])
