"""What happened is told in words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ecumene import EventBatch, EventType, ns
from ecumene.cli.deeds import tell_deed
from env_api.v1 import events_pb2


def tell(kind: EventType, value: Any = None, **columns: Any) -> str:
    """The deed of one event of the key "ann"."""
    documents = {} if value is None else {"value_kinds": [7], "blobs": [json.dumps(value).encode()]}
    frame = events_pb2.EventFrame(count=1, paths=["/town"], keys=["ann"], types=[int(kind)], **documents, **columns)  # type: ignore[list-item]
    return tell_deed(EventBatch(frame, "main")[0])


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (EventType.REGION_ENTERED, {"region": "market"}, "ann entered market"),
        (EventType.REGION_LEFT, {"region": "market"}, "ann left market"),
        (EventType.PROXIMITY_ENTERED, {"proximity": "talk", "other": "bob"}, "ann met bob (talk)"),
        (EventType.PROXIMITY_LEFT, {"proximity": "talk", "other": "bob"}, "ann parted from bob (talk)"),
        (EventType.TIMER_SET, {"due_ns": ns(2), "every_ns": 0, "payload": None}, "timer ann set for 2s"),
        (
            EventType.TIMER_SET,
            {"due_ns": ns(hours=1), "every_ns": ns(minutes=5), "payload": {"a": 1}},
            'timer ann set for 1h, then every 5m: {"a": 1}',
        ),
        (EventType.TIMER_FIRED, {"due_ns": 0, "fired": 1, "missed": 0, "payload": "x"}, "timer ann fired, due 0s: x"),
        (
            EventType.TIMER_FIRED,
            {"due_ns": ns(hours=9), "fired": 9, "missed": 3, "payload": None},
            "timer ann fired, due 9h, for 3 before it, too",
        ),
        (EventType.TIMER_CANCELLED, None, "timer ann cancelled"),
        (EventType.CLOCK_CHANGED, {"now_ns": 0, "paused": False, "target_ns": None}, "clock at 0s"),
        (
            EventType.CLOCK_CHANGED,
            {"now_ns": ns(5), "paused": True, "target_ns": ns(9)},
            "clock at 5s, paused, on its way to 9s",
        ),
        (EventType.CLOCK_CHANGED, {"now_ns": 0, "paused": True, "stepping": True}, "clock at 0s, paused, on a step"),
        (EventType.GATE_OPENED, {"gate": "ann", "generation": 3}, "gate opened ann: generation 3"),
    ],
)
def test_time_and_space_are_told_in_words(kind: EventType, value: Any, told: str) -> None:
    assert tell(kind, value) == told


def test_a_move_tells_where_to() -> None:
    assert tell(EventType.ENTRY_MOVED, coordinates=[3, 4.5], dimensions=[2]) == "ann moved to 3,4.5"
    assert tell(EventType.ENTRY_MOVED) == "ann left the space"
