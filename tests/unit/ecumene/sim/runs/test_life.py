"""However a run ends, its manifest says so."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from ecumene.client import UnavailableError
from ecumene.client.records import TURNS, ManifestError, RunState, read_manifest
from ecumene.sim.reporting import ReportError, read_guess_recording
from ecumene.sim.runs import life
from ecumene.sim.runs.demo import make_demo_spec
from ecumene.sim.runs.results import count_rows

ENDS: list[tuple[BaseException, RunState, str]] = [
    (KeyError("a defect"), RunState.FAILED, "KeyError: 'a defect'"),
    (RecursionError(), RunState.FAILED, "RecursionError: "),
    (OSError(28, "No space left on device"), RunState.FAILED, "[Errno 28] No space left on device"),
    (UnavailableError(), RunState.FAILED, str(UnavailableError())),
    (asyncio.CancelledError(), RunState.INTERRUPTED, "interrupted"),
]


@pytest.mark.parametrize(("ends", "state", "note"), ENDS)
async def test_the_manifest_says_how_a_run_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: BaseException, state: RunState, note: str
) -> None:
    async def fail(*_: Any) -> None:
        raise ends

    monkeypatch.setattr(life.Stage, "play", fail)
    spec = make_demo_spec(agents=4, rounds=1, seed=1, directory=tmp_path)
    with pytest.raises(type(ends)):
        await life.run(spec, observer=Mock())
    (directory,) = tmp_path.iterdir()  # noqa: ASYNC240 - a test
    manifest = read_manifest(directory)
    assert (manifest.state, manifest.note) == (state, note)


@pytest.mark.parametrize("line", ["5", "[]", "{}", '{"round": "x"}', "{", "\\xff", "[" * 100_000])
async def test_rounds_that_are_none_are_told_by_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    async def fail(*_: Any) -> None:
        raise UnavailableError

    monkeypatch.setattr(life.Stage, "play", fail)
    with pytest.raises(UnavailableError):
        await life.run(make_demo_spec(agents=4, rounds=1, seed=1, directory=tmp_path), observer=Mock())
    (directory,) = tmp_path.iterdir()  # noqa: ASYNC240 - a test
    (directory / "rounds.jsonl").write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(ManifestError, match=r"rounds\.jsonl: line 1 is no round"):
        await life.resume(directory, observer=Mock())


@pytest.mark.parametrize("data", [b"", b"junk", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_damaged_part_is_told_by_the_report_and_counts_nothing(tmp_path: Path, data: bytes) -> None:
    part = tmp_path / TURNS.name / "w-000001.parquet"
    part.parent.mkdir()
    part.write_bytes(data)
    assert count_rows(tmp_path)[TURNS.name] == 0
    with pytest.raises(ReportError, match=r"w-000001\.parquet: is damaged"):
        read_guess_recording(tmp_path)
