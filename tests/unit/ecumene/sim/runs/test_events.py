"""Events of a run on disk: every column, in parts, whole even if the run is cut short."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.dataset as ds
import pytest
from ecumene.client.event_batch import EventBatch
from ecumene.client.records import EVENTS, list_parts
from ecumene.sim.runs import events
from ecumene.sim.runs.events import EventRecorder, build_rows
from env_api.v1 import events_pb2


def make_batch(first_revision: int, numbers: list[float]) -> EventBatch:
    """One ENTRY_SET a revision."""
    frame = events_pb2.EventFrame(
        count=len(numbers),
        first_revision=first_revision,
        through_revision=first_revision + len(numbers) - 1,
        paths=["/game/reports"],
        types=[events_pb2.EVENT_TYPE_ENTRY_SET],
        keys=[f"a{index}" for index in range(len(numbers))],
        value_kinds=[4],
        doubles=numbers,
        versions=[1],
        producers=["p"],
        producer_seqs=[7],
        wall_times_ns=[1_700_000_000_000_000_000],
    )
    return EventBatch(frame, "main")


class FakeWorld:
    """A world whose only watch yields what is put into `batches`."""

    def __init__(self) -> None:
        self.batches: asyncio.Queue[EventBatch] = asyncio.Queue()

    def watch_frames(self, event_filter: Any, *, from_revision: int) -> FakeWorld:
        """The watch."""
        self.watched_from = from_revision
        return self

    async def __aenter__(self) -> FakeWorld:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __aiter__(self) -> FakeWorld:
        return self

    async def __anext__(self) -> EventBatch:
        return await self.batches.get()


def read_rows(directory: Path) -> list[dict[str, Any]]:
    """All recorded events."""
    rows: list[dict[str, Any]] = ds.dataset(directory / EVENTS.name).to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["revision"], row["index"]))


def test_every_kind_of_value_has_its_column() -> None:
    values = [None, True, 5, 2.5, "späť", b"\x00\xff", {"mean": 1.5}]
    columns = {
        "types": [6] * 7,
        "paths": ["/"] * 7,
        "keys": [""] * 7,
        "actors": ["", "x", "", "", "", "", ""],
        "causes": [""] * 7,
        "producers": [""] * 7,
        "producer_seqs": [0] * 7,
        "versions": [1] * 7,
        "sim_times_ns": [None, 0, 12, *[None] * 4],
        "wall_times_ns": [9] * 7,
        "revisions": [3, 3, 3, 4, 5, 5, 6],
    }

    class Batch(SimpleNamespace):
        """The columns of a batch."""

        def __len__(self) -> int:
            return 7

    rows = build_rows(Batch(values=values, **columns), "run-1").to_pylist()  # type: ignore[arg-type]
    assert [row["value_kind"] for row in rows] == ["null", "bool", "int", "double", "string", "bytes", "json"]
    assert [row["value_int"] for row in rows] == [None, 1, 5, None, None, None, None]
    assert rows[3]["value_double"] == 2.5
    assert [rows[4]["value_text"], rows[5]["value_text"]] == ["späť", base64.b64encode(b"\x00\xff").decode()]
    assert rows[6]["value_json"] == '{"mean":1.5}'
    assert [row["index"] for row in rows] == [0, 1, 2, 0, 0, 1, 0]
    assert [row["actor"] for row in rows[:2]] == [None, "x"]
    assert [row["sim_time_ns"] for row in rows[:3]] == [None, 0, 12]
    assert rows[0]["type"] == "entry_appended"


async def test_what_was_received_is_on_disk_when_the_recording_ends(tmp_path: Path) -> None:
    world = FakeWorld()
    async with EventRecorder(world, tmp_path, run="run-1") as recorder:  # type: ignore[arg-type]
        world.batches.put_nowait(make_batch(1, [0.5, 1.5]))
        world.batches.put_nowait(make_batch(3, [2.5]))
        await recorder.wait_for(3)
    assert recorder.recorded == 3
    rows = read_rows(tmp_path)
    assert [(row["revision"], row["key"], row["value_double"]) for row in rows] == [
        (1, "a0", 0.5),
        (2, "a1", 1.5),
        (3, "a0", 2.5),
    ]
    assert {row["producer_seq"] for row in rows} == {7}
    assert not (tmp_path / ".staging").exists()


async def test_a_full_part_is_closed_while_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PART_ROWS_MAX", 2)
    world = FakeWorld()
    async with EventRecorder(world, tmp_path, run="run-1") as recorder:  # type: ignore[arg-type]
        world.batches.put_nowait(make_batch(1, [0.5, 1.5]))
        world.batches.put_nowait(make_batch(3, [2.5]))
        await recorder.wait_for(3)
        assert recorder.recorded == 2
    assert len(list_parts(tmp_path, EVENTS)) == 2


async def test_a_part_grows_no_older_than_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "PART_AGE_S_MAX", 0.01)
    world = FakeWorld()
    async with EventRecorder(world, tmp_path, run="run-1") as recorder, asyncio.timeout(10):  # type: ignore[arg-type]
        world.batches.put_nowait(make_batch(1, [0.5]))
        while not recorder.recorded:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert len(list_parts(tmp_path, EVENTS)) == 1


async def test_a_later_recording_goes_on_behind_the_last_revision_of_the_earlier(tmp_path: Path) -> None:
    watched = []
    for first_revision in (8, 10):
        world = FakeWorld()
        recorder = EventRecorder(world, tmp_path, run="run-1", from_revision=7)  # type: ignore[arg-type]
        async with recorder:
            world.batches.put_nowait(make_batch(first_revision, [0.5, 1.5]))
            await recorder.wait_for(first_revision + 1)
        watched.append(world.watched_from)
    assert list(list_parts(tmp_path, EVENTS).values()) == [1, 2]
    assert watched == [7, 10]


async def test_a_full_disk_is_told_and_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(events, "close_part", fail)
    monkeypatch.setattr(events, "PART_ROWS_MAX", 1)
    world = FakeWorld()
    with pytest.raises(OSError, match="no space"):
        async with EventRecorder(world, tmp_path, run="run-1") as recorder:  # type: ignore[arg-type]
            world.batches.put_nowait(make_batch(1, [0.5]))
            await recorder.wait_for(2)


def test_the_books_of_runtimes_are_left_out_and_hashes_of_calls_are_no_numbers() -> None:
    paths = ["/game", "/runtime", "/runtime/runs/r/parts", "/runtimes", "/"]
    seqs = [7, 1, 2, 2**64 - 1, 0]
    frame = events_pb2.EventFrame(
        count=5,
        first_revision=1,
        paths=paths,
        path=range(5),
        types=[events_pb2.EVENT_TYPE_ENTRY_SET],
        keys=["k"],
        versions=[1],
        producers=["p"],
        producer_seqs=seqs,
        wall_times_ns=[1],
    )
    rows = build_rows(EventBatch(frame, "main"), "r").to_pylist()
    assert [(row["path"], row["revision"], row["producer_seq"]) for row in rows] == [
        ("/game", 1, 7),
        ("/runtimes", 4, None),
        ("/", 5, None),
    ]
