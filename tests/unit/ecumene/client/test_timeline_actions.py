"""Clocks, timers and what is done to them, as messages and back; what has no meaning is refused before it is sent."""

from __future__ import annotations

from typing import Any

import ecumene
import pytest
from ecumene import Clock
from ecumene.client.timeline_actions import (
    control_clock,
    fill_clock,
    read_clock,
    read_clock_state,
    read_timer,
    set_timer,
)
from env_api.v1 import timeline_pb2


@pytest.mark.parametrize(
    "clock",
    [
        Clock.manual(),
        Clock.manual(-5, paused=True),
        Clock.realtime(60.0, start_ns=3, lookahead_ns=0),
        Clock.event_driven(lookahead_ns=7),
    ],
)
def test_a_declaration_comes_back_as_it_was(clock: Clock) -> None:
    sent = timeline_pb2.Clock.FromString(fill_clock(clock).SerializeToString())
    assert read_clock(sent) == clock


@pytest.mark.parametrize("clock", [Clock("hourly"), Clock.manual(0.5), Clock.manual(2**63), Clock.manual(True)])  # type: ignore[arg-type]
def test_a_clock_that_cannot_be_is_refused(clock: Clock) -> None:
    with pytest.raises(ecumene.InvalidFieldError):
        fill_clock(clock)


def test_a_state_tells_what_is_unset_from_what_is_0() -> None:
    bare = read_clock_state(timeline_pb2.ClockState(path="/a", mode=timeline_pb2.CLOCK_MODE_MANUAL))
    assert (bare.mode, bare.target_ns, bare.lookahead_ns, bare.next_due_ns) == ("manual", None, None, None)
    full = timeline_pb2.ClockState(
        mode=timeline_pb2.CLOCK_MODE_EVENT_DRIVEN, target_ns=0, lookahead_ns=0, next_due_ns=0, held_by=["ann is busy"]
    )
    read = read_clock_state(full)
    assert (read.mode, read.target_ns, read.lookahead_ns, read.next_due_ns) == ("event_driven", 0, 0, 0)
    assert read.held_by == ("ann is busy",)


def test_a_mode_that_is_newer_than_the_client_is_told() -> None:
    newer = timeline_pb2.ClockState(path="/a")
    newer.mode = 9  # type: ignore[assignment]
    with pytest.raises(ecumene.NotSupportedError, match="newer"):
        read_clock_state(newer)


def timer(**given: Any) -> timeline_pb2.SetTimer:
    defaults = {"at_ns": None, "after_ns": None, "every_ns": 0, "missed": "coalesce", "payload": None}
    return set_timer(**{**defaults, "if_absent": False, **given}).set_timer


def test_a_timer_is_due_at_a_time_or_after_a_while_or_after_its_first_round() -> None:
    assert timer(at_ns=0).WhichOneof("due") == "at_ns"
    assert (timer(after_ns=5, every_ns=7).after_ns, timer(every_ns=7).after_ns) == (5, 7)
    assert timer(at_ns=1, payload={"a": [1]}).payload_json == b'{"a":[1]}'
    assert timer(at_ns=1, missed="catch_up").missed == timeline_pb2.MISSED_TICKS_CATCH_UP


@pytest.mark.parametrize(
    "given",
    [{}, {"at_ns": 1, "after_ns": 1}, {"at_ns": 1.5}, {"after_ns": "1"}, {"at_ns": 1, "missed": "forget"}],
    ids=["never", "twice", "half a nanosecond", "text", "unknown policy"],
)
def test_a_timer_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ecumene.InvalidFieldError):
        timer(**given)


def test_timers_are_read() -> None:
    message = timeline_pb2.TimerState(name="t", due_ns=9, every_ns=3, payload_json=b"[1]", fired=2)
    message.missed = timeline_pb2.MISSED_TICKS_SKIP
    assert read_timer(message) == ecumene.TimerInfo("t", 9, 3, "skip", [1], 2)


@pytest.mark.parametrize("rate", [0, -1, True, "2", float("nan"), float("inf"), pytest.param(10**5000, id="huge")])
def test_a_rate_is_a_finite_number_above_0(rate: Any) -> None:
    """In a declaration 0 would be none that is said, and so 1."""
    for ask in (lambda: fill_clock(Clock.realtime(rate)), lambda: control_clock({"rate": rate})):
        with pytest.raises(ecumene.InvalidFieldError, match="rate: "):
            ask()


def test_a_clock_that_is_not_realtime_has_no_rate() -> None:
    with pytest.raises(ecumene.InvalidFieldError, match="realtime"):
        fill_clock(Clock("manual", rate=2.0))


def test_a_time_beyond_all_bounds_is_refused_in_one_line() -> None:
    with pytest.raises(ecumene.InvalidFieldError, match="64 bits"):
        control_clock({"skip_to_ns": 10**5000})


def test_a_clock_does_one_thing_at_a_time() -> None:
    assert control_clock({"advance_by_ns": 0}).WhichOneof("action") == "advance_by_ns"
    assert control_clock({"pause": True}).pause
    assert control_clock({"rate": 2}).rate == 2.0
    for change in ({}, {"step": True, "pause": True}, {"advance_to_ns": 0.5}, {"step": False}, {"rate": "fast"}):
        with pytest.raises(ecumene.InvalidFieldError):
            control_clock(change)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="rewind"):
        control_clock({"rewind": True})  # type: ignore[typeddict-unknown-key]
