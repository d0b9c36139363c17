"""Clocks and timers as facts, and as the documents of events."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from env_server.model.timelines import ClockDeclaration, ClockMode, ClockState, MissedTicks, Timer
from env_server.model.values import INT_MAX, INT_MIN, Json
from env_server.timeline import facts
from env_server.timeline.ticks import Tick
from env_server.timeline.timeline import Timeline

TIMES = st.integers(INT_MIN, INT_MAX)
STATES = st.builds(
    ClockState,
    now_ns=TIMES,
    rate=st.floats(1e-300, 1e300),
    paused=st.booleans(),
    target_ns=st.none() | TIMES,
    skipping=st.booleans(),
    stepping=st.booleans(),
)
PAYLOADS = st.none() | st.sampled_from([Json(b'{"a" :1.50}'), Json('"ü"'.encode()), Json(b'"\\ud800"'), Json(b"null")])
TIMERS = st.builds(
    Timer,
    st.sampled_from(["bell", "ü b", "a:b"]),
    TIMES,
    st.integers(1, 2**63),
    st.integers(0, INT_MAX),
    st.sampled_from(MissedTicks),
    PAYLOADS,
    st.integers(0, 2**40),
    st.integers(0, 2**40),
)


@given(STATES)
def test_a_clock_is_what_it_was(state: ClockState) -> None:
    assert facts.decode_clock(facts.encode_clock(state)) == state


@given(TIMERS, st.integers(1, 2**40), st.integers(1, 2**40))
def test_a_timer_is_what_it_was(timer: Timer, clock: int, number: int) -> None:
    key = (number, timer.name)
    decoded = facts.decode_timer(facts.key_of(key), facts.encode_timer(clock, timer))
    assert decoded == (clock, key, timer)
    kept = decoded[2].payload
    assert (kept is None) == (timer.payload is None) and (kept is None or kept.text == timer.payload.text)  # type: ignore[union-attr]


def test_what_events_tell() -> None:
    timer = Timer("bell", 7, 1, 5, MissedTicks.CATCH_UP, Json(b'{"a" :1.50}'), 3)
    assert b'"payload":{"a" :1.50}' in facts.tell_setting(timer).text
    assert facts.tell_setting(timer).document == {
        "due_ns": 7,
        "every_ns": 5,
        "missed": "catch_up",
        "payload": {"a": 1.5},
    }
    assert facts.tell_firing(timer, Tick(12, 1, fires=True, next=None)).document == {
        "due_ns": 12,
        "fired": 4,
        "missed": 1,
        "last": True,
        "payload": {"a": 1.5},
    }
    timeline = Timeline(1, ClockDeclaration(ClockMode.REALTIME), ClockState(3, 0.5, target_ns=9, stepping=True), 0)
    assert json.loads(facts.tell_clock(timeline).text) == {
        "mode": "realtime",
        "now_ns": 3,
        "rate": 0.5,
        "paused": False,
        "target_ns": 9,
        "stepping": True,
    }
