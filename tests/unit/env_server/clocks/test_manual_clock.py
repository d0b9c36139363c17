"""Simulated time passes only when told to, and everything happens in order."""

from __future__ import annotations

import pytest

from env_server.clocks import manual_clock
from env_server.clocks.manual_clock import ManualClock


def test_alarms_ring_in_order_of_their_time_and_of_being_set() -> None:
    clock, rang = ManualClock(), []
    clock.call_later(2, lambda: rang.append("late"))
    clock.call_later(1, lambda: rang.append("first"))
    clock.call_later(1, lambda: rang.append("second"))
    clock.advance(0.5)
    assert rang == []
    clock.advance(0.5)
    assert rang == ["first", "second"]
    clock.advance(10)
    assert rang == ["first", "second", "late"]
    assert clock.monotonic_ns() == clock.wall_ns() == 11 * 10**9


def test_an_alarm_sees_the_time_at_which_it_was_due_and_may_set_another() -> None:
    clock, seen = ManualClock(), []

    def ring() -> None:
        seen.append(clock.monotonic_ns())
        if len(seen) < 3:
            clock.call_later(1, ring)

    clock.call_later(1, ring)
    clock.advance(100)
    assert seen == [10**9, 2 * 10**9, 3 * 10**9]


def test_a_cancelled_alarm_does_not_ring() -> None:
    clock, rang = ManualClock(), []
    clock.call_later(1, lambda: rang.append(1)).cancel()
    clock.advance(2)
    assert rang == []


def test_a_step_leaves_what_it_adds_to_the_next_step() -> None:
    clock, ran = ManualClock(), []
    clock.call_soon(lambda: clock.call_soon(lambda: ran.append(1)))
    clock.step()
    assert ran == []
    assert not clock.idle
    clock.step()
    assert ran == [1]
    assert clock.idle


def test_what_never_settles_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()

    def again() -> None:
        clock.call_soon(again)

    clock.call_soon(again)
    monkeypatch.setattr(manual_clock, "STEPS_MAX", 100)
    with pytest.raises(RuntimeError, match="100 steps"):
        clock.settle()
