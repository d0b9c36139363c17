"""CallObservers are told of every call."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ecumene import workflows
from ecumene.client.records import TURNS, digest_turns, list_parts
from ecumene.sim.recordings import open_recording
from ecumene.workflows.cells import TURNS_A_LIFE, FinishedCall
from ecumene.workflows.errors import Failure

from agent_runtime.model.clock import Clock
from agent_runtime.recording import Recorder, RecordingLimits
from agent_runtime.workflows.host_process import HostProcess, HostSettings
from agent_runtime.workflows.recording import CallCounts, CallObservers, CallRecords
from tests.workflow_actors import Teller


def make_call(failure: Failure | None = None, attempts: int = 1, effects: int = 0) -> FinishedCall:
    return FinishedCall(
        flow="f",
        caller="7",
        number=1,
        lane="",
        actor="f.7.1",
        class_name="m:C",
        method="go",
        do="call",
        turn=1,
        revision=3,
        observed_at_ns=4,
        failure=failure,
        attempts=attempts,
        arrived_s=0.0,
        started_s=0.1,
        ended_s=0.2,
        result_bytes=10,
        effects=effects,
    )


def test_counts_and_all_observers() -> None:
    one, two = CallCounts(), CallCounts()
    both = CallObservers(one, two)
    both.record(make_call(effects=3))
    both.record(make_call(Failure("RAISED", "x"), attempts=4))
    assert vars(one) == vars(two) == {"ok": 1, "failed": 1, "attempts": 5, "effects": 3}


async def test_calls_are_turns_with_one_status_a_reason_and_a_latency(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, run="workflows", source="workflows-ann")
    recorder.start()
    kept = CallRecords(recorder, Clock.system(), lambda error: None)
    codes = ["", "RAISED", "TIMEOUT", "REFUSED", "FLOW_LOST", "CONFLICT"]
    for number, code in enumerate(codes, 1):
        failure = Failure(code, "why \ud800", "ValueError" if code == "RAISED" else "") if code else None
        kept.record(dataclasses.replace(make_call(failure, attempts=number), turn=number))
    kept.record(dataclasses.replace(make_call(), turn=0))
    await kept.close()
    rows = sorted(pq.read_table(tmp_path / "turns").to_pylist(), key=lambda row: row["turn"])
    assert [row["status"] for row in rows] == ["ok", "error", "timeout", "refused", "cancelled", "error"]
    assert [row["reason"] for row in rows] == [None, "ValueError: why ?", *["why ?"] * 4]
    assert {(row["run"], row["agent"], row["group"], row["method"]) for row in rows} == {("f", "f.7.1", "m:C", "go")}
    assert {(row["observation_revision"], row["observed_at_ns"]) for row in rows} == {(3, 4)}
    assert all(row["latency_ms"] == pytest.approx(200) for row in rows)
    assert [row["flags"] for row in rows] == [None, *["rerun"] * 5]


async def test_rows_are_held_while_the_disk_is_behind_and_a_failed_recording_is_told(tmp_path: Path) -> None:
    told: list[Exception] = []
    limits = RecordingLimits(pending_rows_max=600)
    recorder = Recorder(tmp_path, run="workflows", source="workflows-ann", limits=limits)
    kept = CallRecords(recorder, Clock.system(), told.append)
    for number in range(1, 1025):  # nobody writes yet
        kept.record(dataclasses.replace(make_call(), turn=number))
    assert recorder.turns.rows_taken == 512
    recorder.start()
    try:
        await asyncio.to_thread(recorder.flush)
        kept._hand_on()
        assert not told and recorder.turns.rows_taken == 1024
    finally:
        recorder.close()
    kept.record(dataclasses.replace(make_call(), turn=2000))
    kept._hand_on()
    assert [str(error) for error in told] == ["the recorder is closed"]


async def test_what_a_host_has_run_is_read_by_digest_and_report(address: str, tmp_path: Path) -> None:
    settings = HostSettings(["tests.workflow_actors"], lease_ttl_s=2.0, recording=tmp_path)
    process = HostProcess(address, "recording", settings)
    async with process, workflows.connect(address) as flow:
        (teller,) = flow.spawn(Teller, 1, host="recording", retry=1)
        await workflows.gather([teller.tell(number) for number in range(5)])
        with pytest.raises(ValueError):
            await teller.with_options(retry=0).fail("told")
        with pytest.raises(workflows.CallTimeoutError):
            await teller.with_options(timeout_s=0.05, retry=0).tell_later(1, 5)
        await wait_for_rows(tmp_path, 8)
        process.signal(signal.SIGKILL)
        await process.wait_ended()
        async with HostProcess(address, "recording", settings):
            async with asyncio.timeout(30):
                while await told(teller.tell("again")) != "again":  # noqa: ASYNC110 - until it is made again
                    await asyncio.sleep(0.1)
            under_way = teller.tell_later("never", 600)
            await asyncio.sleep(0.2)
            flow.stop(teller)
            del under_way
            await flow.aclose(abandon=True)
            await asyncio.sleep(0.5)
    rows = pq.read_table(tmp_path / "turns").to_pylist()
    names = [(row["agent"], row["turn"]) for row in rows]
    assert len(names) == len(set(names)) and {row["run"] for row in rows} == {flow.name}
    first = [(row["status"], row["method"]) for row in rows if row["turn"] < TURNS_A_LIFE]
    assert first == [("ok", "__init__"), *[("ok", "tell")] * 5, ("error", "fail"), ("timeout", "tell_later")]
    second = [(row["status"], row["method"]) for row in rows if row["turn"] > TURNS_A_LIFE]
    assert second[:1] == [("ok", "__init__")] and ("ok", "tell") in second
    assert second[-1] == ("cancelled", "tell_later")
    assert all(row["observation_revision"] > 0 and row["observed_at_ns"] > 0 for row in rows)
    empty = tmp_path / "empty"
    empty.mkdir()
    assert digest_turns(tmp_path) != digest_turns(empty)
    with open_recording([tmp_path], (TURNS,)) as recording:
        assert recording.ask("SELECT count(*) FROM turns") == [(len(rows),)]


async def told(call: Any) -> Any:
    try:
        return await call
    except workflows.WorkflowError as error:
        return error


async def wait_for_rows(directory: Path, count: int) -> None:
    async with asyncio.timeout(20):
        while sum(pq.read_metadata(part).num_rows for part in list_parts(directory, TURNS)) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
