"""A sweep's file is read as it is meant, or refused in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ecumene.sim.recordings import RecordingError, is_sweep, read_sweep

RUN = {"run": "r1", "directory": "one", "seed": 3, "replicate": 1, "values": {"game.ratio": "1/2"}, "state": "done"}
SWEEP = {"sweep": "s", "name": "n", "state": "done", "started_at": "2026-01-01", "ended_at": None, "spec": {}}


def write(place: Path, **changes: Any) -> Path:
    """Write the file with one run."""
    (place / "sweep.json").write_text(json.dumps({**SWEEP, "runs": [{**RUN, **changes}]}), encoding="utf-8")
    return place


def test_runs_and_what_is_varied_are_read(tmp_path: Path) -> None:
    assert not is_sweep(tmp_path)
    sweep = read_sweep(write(tmp_path))
    assert is_sweep(tmp_path)
    assert sweep.varied == ["game.ratio"]
    assert (sweep.runs[0].directory, sweep.runs[0].replicate) == (tmp_path / "one", 1)


@pytest.mark.parametrize("changes", [{"directory": "../other"}, {"directory": "/etc"}, {"seed": "x"}, {"values": 3}])
def test_what_cannot_be_meant_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(RecordingError, match=r"sweep\.json"):
        read_sweep(write(tmp_path, **changes))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"runs": 3}', "null"])
def test_what_is_no_sweep_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "sweep.json").write_text(text, encoding="utf-8")
    with pytest.raises(RecordingError, match="no description of a sweep"):
        read_sweep(tmp_path)
