"""The example that asks and intervenes, as its page shows it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "guess_with_surveys.yaml"


@pytest.mark.timeout(120)
def test_it_asks_before_between_and_after_and_says_what_it_changed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ecumene.cli", "run", str(EXAMPLE)]  # into ./runs, as the page says
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (directory,) = (tmp_path / "runs").iterdir()
    rows = ds.dataset(directory / "surveys").to_table().to_pylist()
    asked = Counter((row["survey"], row["moment"], row["round"]) for row in rows)
    assert asked == {
        ("expectation", "before", None): 40,
        **{("mood", "after_round", number): 20 for number in (1, 2, 3)},
        ("looking-back", "after", None): 60,
        **{("reasons", "after_round", number): 4 for number in (1, 3)},
    }
    assert {row["status"] for row in rows if row["group"] == "level-2"} == {"unsupported"}
    panels = {row["round"]: row["agent"] for row in rows if row["survey"] == "mood"}
    assert len(set(panels)) == 3
    assert "intervention rest, after round 2 (mean below 20: " in done.stdout
    assert "intervention half, before round 3: the game goes on with ratio 0.5" in done.stdout
    assert "survey mood, after round 1: 9 of 10 agents answered; 1 unsupported" in done.stderr
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    assert summary["changed_rules"] == {"3": [0.5, 0.0]}
    assert all(row["target"] == pytest.approx(row["told"]) for row in summary["rounds"])


@pytest.mark.timeout(120)
def test_a_probe_of_a_scripted_model_says_that_nothing_can_be_told(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ecumene.cli", "probe", str(EXAMPLE), "--out", str(tmp_path), "--count", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no model was asked, so nothing can be told of how roles are held" in done.stdout
    (directory,) = tmp_path.iterdir()
    told = json.loads((directory / "probe.json").read_text(encoding="utf-8"))
    found = {one["category"]: (one["asked"], one["answered"], len(one["numbers"])) for one in told["categories"]}
    assert found == {"asked": (2, 2, 2), "level-2": (2, 0, 2)}
