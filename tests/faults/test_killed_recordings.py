"""Whatever is killed, and when: all that was recorded up to a few seconds before can be read, and nothing is damaged.

Case 38: nothing was saved unless asked for, and what failed was told as "Error.".
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from pathlib import Path

import duckdb
import pandas
import pytest
from ecumene.client.records import TABLES, RunState, TurnStatus, read_manifest
from ecumene.sim.exporting import export_tables
from ecumene.sim.recordings import open_recording
from ecumene.sim.reporting import write_report
from ecumene.sim.runs.directory import RunLock

from tests.faults.run_processes import RunProcess, find_run, write_spec

RULE, PROMPTED, ROUNDS = 4, 4, 1_000
LOST_MAX_S = 5.0
NOTICED_S = 2.0
"""How much later than it happened this test, on a busy machine, may be told that a round is over."""


@pytest.mark.parametrize("alone", [False, True], ids=["all", "conductor"])
async def test_what_a_killed_run_left_is_whole(tmp_path: Path, seed: int, alone: bool) -> None:
    await kill_and_read(tmp_path, random.Random(seed), alone=alone)


@pytest.mark.long
@pytest.mark.parametrize("number", range(20))
async def test_what_many_killed_runs_left_is_whole(tmp_path: Path, seed: int, number: int) -> None:
    await kill_and_read(tmp_path, random.Random(seed + number), alone=number % 4 == 0)


async def kill_and_read(folder: Path, chance: random.Random, *, alone: bool) -> None:
    """Play, kill at a random moment, and read everything in every way that the docs tell of."""
    running = await RunProcess.start("run", str(write_spec(folder, rule=RULE, prompted=PROMPTED, rounds=ROUNDS)))
    closed: dict[int, float] = {}
    watching = asyncio.create_task(note_rounds(running, closed), name="note rounds")
    assert await running.wait_line("round 1:"), running.errors
    # Long enough that there is something that must not be lost; the moment itself is what chance is about.
    await asyncio.sleep(LOST_MAX_S + NOTICED_S + chance.uniform(0.0, 3.0))
    killed_at = time.monotonic()
    await running.kill(alone=alone)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    safe = [number for number, at in closed.items() if at < killed_at - LOST_MAX_S]
    assert safe, f"only {len(closed)} rounds were over: too little load"
    directory = find_run(folder)
    read_everything(directory, folder, rounds=max(safe))
    async with RunLock(directory):  # what the conductor left behind has ended
        read_everything(directory, folder, rounds=max(safe))


async def note_rounds(running: RunProcess, closed: dict[int, float]) -> None:
    """When each round was told to be over."""
    for number in range(1, ROUNDS + 1):
        if not await running.wait_line(f"round {number}:"):
            return
        closed[number] = time.monotonic()


def read_everything(directory: Path, folder: Path, *, rounds: int) -> None:
    """All turns of the first rounds are there, in whichever way they are read."""
    expected = (RULE + PROMPTED) * rounds
    turns = pandas.read_parquet(directory / "turns").drop_duplicates(["run", "agent", "turn"], keep="last")
    assert int((turns["round"] <= rounds).sum()) == expected
    found = duckdb.sql(
        f"SELECT count(DISTINCT (agent, turn)) FROM '{directory}/turns/*.parquet' WHERE round <= {rounds}"
    ).fetchall()
    assert found == [(expected,)]
    with open_recording([directory]) as recording:
        for table in ("turns", "actions"):
            assert recording.ask(f"SELECT count(*) FROM {table} WHERE round <= {rounds}") == [(expected,)]
        ((calls,),) = recording.ask("SELECT count(*) FROM calls")
        assert calls >= PROMPTED * rounds
    assert read_manifest(directory).state is RunState.RUNNING
    write_report(directory, folder / "report.html")
    assert "has not ended, or was killed" in (folder / "report.html").read_text(encoding="utf-8")
    for file_format in ("csv", "parquet"):
        written = export_tables(directory, folder / "tables", file_format=file_format)
        assert [one.table for one in written] == [table.name for table in TABLES]
        assert written[0].rows >= expected


async def test_what_failed_is_saved_unasked_with_its_reason(tmp_path: Path) -> None:
    model = {"provider": "scripted", "faults": {"timeout": 0.5}, "timeout_s": 0.05, "attempts_max": 1}
    running = await RunProcess.start("run", str(write_spec(tmp_path, rule=2, prompted=20, rounds=2, model=model)))
    assert await running.wait() == 0, running.errors
    directory = find_run(tmp_path)
    turns = pandas.read_parquet(directory / "turns")
    failed = turns[turns["status"] != TurnStatus.OK]
    assert len(failed) > 0
    reasons = failed["reason"].astype(str)
    assert reasons.str.len().min() > len("Error.")
    assert len(turns) == 44
    write_report(directory, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{len(failed)} of 44 turns failed" in page
    assert reasons.iloc[0].split("<")[0] in page
