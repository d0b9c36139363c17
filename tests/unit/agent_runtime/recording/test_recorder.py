"""Rows reach the disk in time, in bounds, and a disk that fails is heard."""

from __future__ import annotations

import asyncio
import queue
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from agent_runtime.recording import (
    BatchShapeError,
    ClosedPart,
    Recorder,
    RecordingError,
    RecordingFailedError,
    RecordingFullError,
    RecordingLimits,
    SourceInUseError,
)

WAIT_S = 20.0
# Nothing is due by age within a test that sets this.
SLOW = RecordingLimits(part_age_ms_max=4_000)


def turns(count: int, first: int = 1, **changes: Any) -> dict[str, Any]:
    """Columns of turns, numbered."""
    return {
        "agent": "agent-000001",
        "turn": list(range(first, first + count)),
        "observation_revision": 1,
        "wall_time_ns": 1,
        "status": "ok",
        "attempts": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "latency_ms": 0.5,
        **changes,
    }


def action() -> dict[str, Any]:
    """Columns of one action."""
    return {"agent": ["agent-000001"], "turn": 1, "seq": 0, "action": "report", "path": "/game", "key": "k"}


def read_turns(directory: Path) -> list[int]:
    """Turn numbers on disk, in order."""
    return sorted(ds.dataset(directory / "turns").to_table(["turn"]).column("turn").to_pylist())


def test_closing_writes_everything_and_clears_the_staging_folder(tmp_path: Path) -> None:
    with Recorder(tmp_path, run="r", source="n.w0", limits=SLOW) as recorder:
        recorder.turns.extend(turns(3))
        recorder.turns.extend(turns(2, first=4))
        recorder.turns.extend(turns(0))
    assert read_turns(tmp_path) == [1, 2, 3, 4, 5]
    assert list((tmp_path / ".staging").iterdir()) == []
    statistics = recorder.statistics()
    assert statistics.rows_on_disk == {"calls": 0, "actions": 0, "turns": 5}
    assert (statistics.rows_pending, statistics.parts) == (0, 1)
    assert statistics.size_bytes == sum(path.stat().st_size for path in (tmp_path / "turns").iterdir())


def test_a_row_is_on_disk_after_its_age_without_being_asked(tmp_path: Path) -> None:
    parts: queue.Queue[ClosedPart] = queue.Queue()
    limits = RecordingLimits(part_age_ms_max=50)
    with Recorder(tmp_path, run="r", source="w", limits=limits, on_part=parts.put) as recorder:
        for first in (1, 2, 3):
            began_s = time.monotonic()
            recorder.turns.extend(turns(1, first))
            assert parts.get(timeout=WAIT_S).rows == 1
            assert time.monotonic() - began_s >= 0.05
            assert read_turns(tmp_path) == list(range(1, first + 1))


def test_a_full_part_does_not_wait_for_its_age(tmp_path: Path) -> None:
    parts: queue.Queue[ClosedPart] = queue.Queue()
    limits = RecordingLimits(part_age_ms_max=4_000, part_rows_max=10)
    with Recorder(tmp_path, run="r", source="w", limits=limits, clock=lambda: 0.0, on_part=parts.put) as recorder:
        recorder.turns.extend(turns(5))
        recorder.turns.extend(turns(20, first=6))
        assert [parts.get(timeout=WAIT_S).rows for _ in range(3)] == [10, 10, 5]
    assert read_turns(tmp_path) == list(range(1, 26))


def test_flush_returns_when_what_was_taken_is_on_disk(tmp_path: Path) -> None:
    with Recorder(tmp_path, run="r", source="w", limits=SLOW, clock=lambda: 0.0) as recorder:
        for first in (1, 2):
            recorder.turns.extend(turns(1, first))
            recorder.flush()
            assert read_turns(tmp_path) == list(range(1, first + 1))


def test_an_action_is_on_disk_before_its_turn(tmp_path: Path) -> None:
    order: list[str] = []
    with Recorder(tmp_path, run="r", source="w", limits=SLOW, on_part=lambda p: order.append(p.table)) as recorder:
        recorder.actions.extend(action())
        recorder.turns.extend(turns(1))
    assert order == ["actions", "turns"]


def test_parts_of_several_workers_and_restarts_never_collide(tmp_path: Path) -> None:
    first = 1
    for _ in range(2):
        recorders = [Recorder(tmp_path, run="r", source=f"n.w{number}", limits=SLOW) for number in range(3)]
        for recorder in recorders:
            recorder.start()
        for recorder in recorders:
            recorder.turns.extend(turns(1, first))
            first += 1
        for recorder in recorders:
            recorder.close()
    assert read_turns(tmp_path) == [1, 2, 3, 4, 5, 6]
    names = sorted(path.name for path in (tmp_path / "turns").iterdir())
    assert names == [f"n.w{worker}-{number:06d}.parquet" for worker in range(3) for number in (1, 2)]


def test_two_living_writers_of_one_source_are_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path, run="r", source="w"), pytest.raises(SourceInUseError):
        Recorder(tmp_path, run="r", source="w").start()
    with Recorder(tmp_path, run="r", source="w") as recorder:
        recorder.turns.extend(turns(1))
    assert read_turns(tmp_path) == [1]


def test_a_full_backlog_takes_nothing_and_names_its_limit(tmp_path: Path) -> None:
    limits = RecordingLimits(pending_rows_max=10, pending_chars_max=10)
    recorder = Recorder(tmp_path, run="r", source="w", limits=limits)
    recorder.turns.extend(turns(8))
    with pytest.raises(RecordingFullError, match="pending_rows_max = 10"):
        recorder.turns.extend(turns(3, first=9))
    with pytest.raises(RecordingFullError) as caught:
        recorder.actions.extend({**action(), "value_text": "hello world"})
    assert caught.value.limit == "pending_chars_max"
    recorder.turns.extend(turns(2, first=9))
    recorder.start()
    recorder.close()
    assert read_turns(tmp_path) == list(range(1, 11))


async def test_put_waits_for_the_disk_and_loses_nothing(tmp_path: Path) -> None:
    held = threading.Event()

    def hold(part: ClosedPart) -> None:
        assert held.wait(WAIT_S)

    limits = RecordingLimits(part_rows_max=10, pending_rows_max=10)
    recorder = Recorder(tmp_path, run="r", source="w", limits=limits, on_part=hold)
    recorder.start()
    await recorder.turns.put(turns(10))
    waiting = [asyncio.create_task(recorder.turns.put(turns(6, first)), name=f"put-{first}") for first in (11, 17, 23)]
    given_up = asyncio.create_task(recorder.turns.put(turns(6, 100)), name="put-100")
    _, pending = await asyncio.wait([*waiting, given_up], timeout=0.05)
    assert len(pending) == 4
    given_up.cancel()
    held.set()
    await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)
    with pytest.raises(RecordingFullError):
        await recorder.turns.put(turns(11, 100))
    await asyncio.to_thread(recorder.close)
    assert read_turns(tmp_path) == list(range(1, 29))
    assert recorder.statistics().full_waits >= 4


async def test_a_disk_that_fails_reaches_everyone(tmp_path: Path) -> None:
    heard: queue.Queue[RecordingFailedError] = queue.Queue()
    limits = RecordingLimits(part_age_ms_max=4_000, pending_rows_max=10)
    recorder = Recorder(tmp_path, run="r", source="w", limits=limits, on_failure=heard.put)
    recorder.start()
    shutil.rmtree(tmp_path / "turns")
    recorder.turns.extend(turns(10))
    waiting = asyncio.create_task(recorder.turns.put(turns(1)), name="put")
    await asyncio.wait([waiting], timeout=0.05)
    with pytest.raises(RecordingFailedError, match=r"recording of turns failed: .*No such file"):
        await asyncio.to_thread(recorder.flush)
    failure = heard.get(timeout=WAIT_S)
    assert isinstance(failure.__cause__, OSError)
    for attempt in (lambda: recorder.turns.extend(turns(1)), recorder.flush, recorder.close):
        with pytest.raises(RecordingFailedError):
            attempt()
    with pytest.raises(RecordingFailedError):
        await asyncio.wait_for(waiting, WAIT_S)
    assert recorder.failure is failure
    assert heard.empty()


@pytest.mark.parametrize("changes", [{"status": None}, {"turn": ["x"]}, {"agent": [3.5]}])
def test_a_value_that_cannot_be_written_fails_the_recording(tmp_path: Path, changes: dict[str, Any]) -> None:
    recorder = Recorder(tmp_path, run="r", source="w")
    recorder.start()
    recorder.turns.extend(turns(1, **changes))
    with pytest.raises(RecordingFailedError, match=next(iter(changes))):
        recorder.close()
    assert list((tmp_path / "turns").iterdir()) == []


def test_a_defect_in_a_callback_is_not_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: queue.Queue[Any] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", seen.put)

    def fail(part: ClosedPart) -> None:
        raise ZeroDivisionError

    recorder = Recorder(tmp_path, run="r", source="w", on_part=fail)
    recorder.start()
    recorder.turns.extend(turns(1))
    with pytest.raises(RecordingFailedError, match="writer thread ended"):
        recorder.close()
    assert seen.get(timeout=WAIT_S).exc_type is ZeroDivisionError


def test_a_malformed_batch_and_a_closed_recorder_take_nothing(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, run="r", source="w")
    with recorder:
        with pytest.raises(BatchShapeError):
            recorder.turns.extend({"agent": ["a"]})
        assert recorder.statistics().rows_pending == 0
    recorder.close()
    with pytest.raises(RecordingError, match="closed"):
        recorder.turns.extend(turns(1))


@pytest.mark.parametrize("changes", [{"part_rows_max": 0}, {"part_age_ms_max": 4_001}])
def test_limits_that_break_a_promise_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        RecordingLimits(**changes)
