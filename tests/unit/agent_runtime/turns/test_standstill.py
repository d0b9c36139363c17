"""Agents who are woken for ever while their clock stands are told of, and not too often."""

from __future__ import annotations

import pytest

from agent_runtime.turns import standstill
from agent_runtime.turns.standstill import Standstill


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standstill, "TOLD_AT", 5)


def test_agents_who_wake_each_other_in_one_instant_are_told_of_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    seen = Standstill("g.0")
    for _ in range(4):
        seen.note_event(70)
        seen.note_event(None)
        seen.note_event(60)  # of another clock
    assert not caplog.records
    for _ in range(200):
        seen.note_event(70)
    first, second = [record.getMessage() for record in caplog.records]
    assert "agents of g.0 live waits for them at 70 ns, where they were woken 5 times" in first and "50 times" in second


def test_a_clock_that_goes_on_is_none_that_stands(caplog: pytest.LogCaptureFixture) -> None:
    seen = Standstill("g.0")
    for now_ns in range(100):
        for _ in range(4):
            seen.note_event(now_ns)
    assert not caplog.records


def test_agents_who_never_come_to_where_their_clock_is_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    seen = Standstill("g.0")
    for wake_ns in range(10):
        seen.note_wake(1_000, wake_ns)
    (told,) = [record.getMessage() for record in caplog.records]
    assert "woken 5 times since their clock came to 1000 ns, and are 996 ns behind it" in told
    for now_ns in range(2_000, 2_010):
        seen.note_wake(now_ns, now_ns)
    for _ in range(10):
        seen.note_wake(3_000, None)
    assert len(caplog.records) == 1
