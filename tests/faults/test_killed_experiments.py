"""Experiments of one's own: killed in rounds, and while time passes, they come to the same end as without a kill."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ecumene.sim.specs.yaml_reading import read_yaml

from tests.faults.run_processes import RunProcess, digest_own_world, find_run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def _examples_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [str(EXAMPLES), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, found)))


def write(folder: Path, example: str, **changes: Any) -> Path:
    folder.mkdir()
    document, _ = read_yaml((EXAMPLES / example).read_text(encoding="utf-8"))
    document |= changes | {"recording": {"directory": str(folder / "runs")}}
    path = folder / "spec.yaml"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def read_figures(directory: Path) -> list[dict[str, Any]]:
    lines = (directory / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["figures"] for line in lines]


PEOPLE = {"groups": [{"name": "people", "agent": "rumour:Stroller", "count": 20}]}


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("example", "changes", "kills"),
    [
        ("public_goods.yaml", {}, ("round 3:",)),
        ("rumour.yaml", {"population": PEOPLE}, ("round 1:",)),
        pytest.param("public_goods.yaml", {}, ("round 1:", "round 2:", "stopping"), marks=pytest.mark.long),
        pytest.param("rumour.yaml", {}, ("launching", "turns", "round 1:", "round 2:"), marks=pytest.mark.long),
    ],
)
async def test_a_killed_experiment_comes_to_the_same_end(
    tmp_path: Path, example: str, changes: dict[str, Any], kills: tuple[str, ...]
) -> None:
    running = await RunProcess.start("run", str(write(tmp_path / "whole", example, **changes)))
    assert await running.wait() == 0, running.errors
    expected = find_run(tmp_path / "whole")

    running = await RunProcess.start("run", str(write(tmp_path / "killed", example, **changes)))
    for line in kills:
        assert await running.wait_line(line), running.errors
        await running.kill()
        running = await RunProcess.start("resume", str(find_run(tmp_path / "killed")))
    assert await running.wait() == 0, running.errors
    directory = find_run(tmp_path / "killed")

    assert read_figures(directory) == read_figures(expected)
    assert str(await digest_own_world(directory)) == str(await digest_own_world(expected))
