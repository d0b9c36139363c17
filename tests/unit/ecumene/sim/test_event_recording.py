"""Events are on disk when the call returns, and parts go on after a restart."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ecumene.client.records import EVENTS, list_parts
from ecumene.sim.event_recording import EventRecorder

EVENT = {"revision": 4, "index": 0, "type": "behaviour", "path": "/game", "key": "round.closed", "wall_time_ns": 1}


def test_events_are_on_disk_when_the_call_returns(tmp_path: Path) -> None:
    for revision in (1, 2):
        recorder = EventRecorder(tmp_path, run="r")
        recorder.record([])
        recorder.record([{**EVENT, "revision": revision, "value_kind": "json", "value_json": '{"winner": 3}'}])
    parts = list_parts(tmp_path, EVENTS)
    assert list(parts.values()) == [1, 2]
    rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
    assert [(row["run"], row["revision"], row["value_json"]) for row in rows] == [
        ("r", 1, '{"winner": 3}'),
        ("r", 2, '{"winner": 3}'),
    ]


def test_a_row_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pa.ArrowException):
        EventRecorder(tmp_path, run="r").record([{**EVENT, "revision": "soon"}])
    assert list_parts(tmp_path, EVENTS) == {}
