"""Every clock is the same after it went through its JSON form, also through that of before."""

from __future__ import annotations

import json

import pytest

from env_server.model.clock_forms import clock_form, clock_of
from env_server.model.timelines import ClockDeclaration, ClockMode

CLOCKS = [
    *(ClockDeclaration(mode) for mode in ClockMode),
    ClockDeclaration(ClockMode.REALTIME, -7, 2.5, paused=True, lookahead_ns=0),
    ClockDeclaration(ClockMode.MANUAL, 2**63 - 1, lookahead_ns=5),
    ClockDeclaration(ClockMode.EVENT_DRIVEN, participants_path="/lab/staff"),
]


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_clock_survives(clock: ClockDeclaration) -> None:
    assert clock_of(json.loads(json.dumps(clock_form(clock)))) == clock


@pytest.mark.parametrize(
    ("stored", "clock"),
    [
        ({"mode": 1}, CLOCKS[0]),
        ({"mode": 2, "start_ns": -7, "rate": 2.5, "paused": True, "lookahead_ns": 0}, CLOCKS[3]),
        ({"mode": 3, "participants_path": "/lab/staff"}, CLOCKS[5]),
    ],
)
def test_what_was_stored_before_is_read(stored: dict[str, object], clock: ClockDeclaration) -> None:
    assert clock_of(stored) == clock


@pytest.mark.parametrize("form", [{}, {"mode": 9}, {"mode": "hourly"}, {"mode": None}])
def test_what_is_no_clock_is_refused(form: dict[str, object]) -> None:
    with pytest.raises((KeyError, ValueError, TypeError)):
        clock_of(form)
