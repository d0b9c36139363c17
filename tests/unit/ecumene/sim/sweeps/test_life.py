"""A sweep runs each of its runs once, whatever fails, is interrupted, or was killed in between."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from ecumene.client import UnavailableError
from ecumene.client.records import RunState
from ecumene.sim.runs.options import RunOptions
from ecumene.sim.runs.record import RunDoneError, RunRecord
from ecumene.sim.specs.errors import SpecError
from ecumene.sim.specs.spec import RunSpec, parse_spec
from ecumene.sim.sweeps import life
from ecumene.sim.sweeps.record import SWEEP_NAME


def make(directory: Path, **sweep: Any) -> RunSpec:
    groups = [{"name": "a", "agent": "random", "count": 2}]
    recording = {"directory": str(directory)}
    return parse_spec({"name": "s", "population": {"groups": groups}, "sweep": sweep, "recording": recording})


class Runs:
    """Stands for real runs: each writes its manifest, waits until it may end, and ends as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[str] = []
        self.resumed: list[str] = []
        self.budgets: list[int | None] = []
        self.failing: set[str] = set()
        self.hanging: set[str] = set()
        self.is_hanging = asyncio.Event()
        self.at_a_time = self.most = 0
        monkeypatch.setattr(life, "run", self.run)
        monkeypatch.setattr(life, "resume", self.resume)
        monkeypatch.setattr("ecumene.sim.sweeps.record.is_reported", lambda _: True)

    async def run(self, spec: RunSpec, *, observer: Any, options: RunOptions) -> Any:
        directory = spec.recording.directory / options.name
        directory.mkdir()
        self.begun.append(options.name[-3:])
        self.budgets.append(spec.budget.tokens_max)
        now = options.now()
        record = RunRecord.create(spec, options.name, directory, now, options.now, server="", over_nodes=False)
        return await self.live(record)

    async def resume(self, directory: Path, *, observer: Any, options: RunOptions) -> Any:
        self.resumed.append(directory.name[-3:])
        return await self.live(RunRecord.reopen(directory, options.now))

    async def live(self, record: RunRecord) -> Any:
        number = record.run[-3:]
        self.at_a_time += 1
        self.most = max(self.most, self.at_a_time)
        try:
            await asyncio.sleep(0)
            if number in self.hanging:
                self.is_hanging.set()
                await asyncio.Event().wait()
            if number in self.failing:
                record._write_end(RunState.FAILED, "planted")
                raise UnavailableError
            record._write_end(RunState.DONE, "")
            return Mock()
        except asyncio.CancelledError:
            record._write_end(RunState.INTERRUPTED, "")
            raise
        finally:
            self.at_a_time -= 1


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def read(directory: Path) -> tuple[str, list[str]]:
    document = json.loads((directory / SWEEP_NAME).read_text(encoding="utf-8"))
    return document["state"], [one["state"] for one in document["runs"]]


async def test_each_run_is_run_once_and_no_more_than_some_at_a_time(tmp_path: Path, runs: Runs) -> None:
    outcome = await life.run_sweep(make(tmp_path, replicates=7, parallel=3), observer=Mock())
    assert sorted(runs.begun) == [f"{number:03d}" for number in range(1, 8)]
    assert (runs.most, outcome.state) == (3, RunState.DONE)
    assert read(outcome.directory) == ("done", ["done"] * 7)
    with pytest.raises(RunDoneError):
        await life.resume_sweep(outcome.directory, observer=Mock())


async def test_a_run_that_fails_does_not_end_the_others_and_is_gone_on_with(tmp_path: Path, runs: Runs) -> None:
    runs.failing = {"002"}
    outcome = await life.run_sweep(make(tmp_path, replicates=4), observer=Mock())
    assert read(outcome.directory) == ("failed", ["done", "failed", "done", "done"])
    runs.failing = set()
    again = await life.resume_sweep(outcome.directory, observer=Mock())
    assert (again.state, runs.resumed, len(runs.begun)) == (RunState.DONE, ["002"], 4)


async def test_with_fail_fast_the_first_failure_ends_the_sweep(tmp_path: Path, runs: Runs) -> None:
    runs.failing = {"002"}
    outcome = await life.run_sweep(make(tmp_path, replicates=4, fail_fast=True), observer=Mock())
    assert read(outcome.directory) == ("failed", ["done", "failed", "pending", "pending"])
    runs.failing = set()
    await life.resume_sweep(outcome.directory, observer=Mock())
    assert read(outcome.directory) == ("done", ["done"] * 4)


async def test_an_interrupted_sweep_goes_on_where_it_stood(tmp_path: Path, runs: Runs) -> None:
    runs.hanging = {"002"}
    observer = Mock()
    sweep = asyncio.create_task(life.run_sweep(make(tmp_path, replicates=3), observer=observer), name="sweep")
    await runs.is_hanging.wait()
    sweep.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sweep
    (directory,) = tmp_path.iterdir()  # noqa: ASYNC240 - a test
    assert read(directory) == ("interrupted", ["done", "interrupted", "pending"])
    runs.hanging = set()
    moved = directory.rename(tmp_path / "moved")
    outcome = await life.resume_sweep(moved, observer=Mock())
    assert (outcome.state, runs.resumed, runs.begun) == (RunState.DONE, ["002"], ["001", "002", "003"])
    assert read(moved) == ("done", ["done"] * 3)


async def test_larger_budgets_hold_for_what_has_not_begun_too(tmp_path: Path, runs: Runs) -> None:
    runs.failing = {"001"}
    spec = make(tmp_path, replicates=2, fail_fast=True)
    outcome = await life.run_sweep(spec, observer=Mock())
    options = RunOptions(budgets={"tokens_max": {"run": 5_000}})
    runs.failing = set()
    await life.resume_sweep(outcome.directory, observer=Mock(), options=options)
    assert runs.budgets == [None, 5_000]


async def test_a_directory_without_a_manifest_is_taken_and_one_with_a_run_is_not(tmp_path: Path, runs: Runs) -> None:
    from ecumene.sim.runs.directory import make_directory

    spec = make(tmp_path).model_copy(update={"sweep": None})
    now = RunOptions().now()
    assert make_directory(spec, now, "a-001") == make_directory(spec, now, "a-001")
    RunRecord.create(spec, "a-001", tmp_path / "a-001", now, RunOptions().now, server="", over_nodes=False)
    with pytest.raises(FileExistsError):
        make_directory(spec, now, "a-001")


async def test_a_sweep_is_no_run_and_lives_on_no_nodes(tmp_path: Path) -> None:
    from ecumene.sim.runs.life import run

    with pytest.raises(SpecError, match="run_sweep"):
        await run(make(tmp_path, replicates=2), observer=Mock())
    with pytest.raises(SpecError, match="--nodes"):
        options = RunOptions(server="127.0.0.1:1", over_nodes=True)
        await life.run_sweep(make(tmp_path, replicates=2), observer=Mock(), options=options)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a test
