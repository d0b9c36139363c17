"""A run's manifest tells its beginning, its end, and what was recorded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from ecumene.client.records import RunState, read_manifest
from ecumene.sim.event_recording import EventRecorder
from ecumene.sim.manifests import begin_manifest, end_manifest, format_instant
from ecumene.sim.spec import parse_spec

SPEC = parse_spec({"name": "x", "seed": 9, "population": {"groups": [{"name": "a", "agent": "random", "count": 1}]}})
START = datetime(2025, 1, 1, tzinfo=UTC)


def test_a_manifest_begins_running_and_ends_with_counts(tmp_path: Path) -> None:
    begun = begin_manifest(tmp_path / "run", SPEC, run="x-1", world="x-1", history="h", started_at=START)
    assert (begun.state, begun.ended_at, begun.seed) == (RunState.RUNNING, None, 9)
    assert parse_spec(begun.spec) == SPEC
    assert begun.versions["ecumene"]
    event = {"revision": 4, "index": 0, "type": "gate_opened", "path": "/game", "key": "round", "wall_time_ns": 1}
    EventRecorder(tmp_path / "run", run="x-1").record([event, {**event, "index": 1}])
    ended = end_manifest(tmp_path / "run", RunState.FAILED, ended_at=START + timedelta(seconds=3), note="two\nlines")
    assert read_manifest(tmp_path / "run") == ended
    assert ended.counts == {"turns": 0, "actions": 0, "calls": 0, "events": 2}
    assert (ended.ended_at, ended.note) == ("2025-01-01T00:00:03.000Z", "two lines")
    assert ended.started_at == begun.started_at


def test_an_instant_is_utc_and_needs_a_zone() -> None:
    assert format_instant(datetime(2025, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == "2025-01-01T00:00:00.000Z"
    with pytest.raises(ValueError, match="no time zone"):
        format_instant(datetime(2025, 1, 1))
