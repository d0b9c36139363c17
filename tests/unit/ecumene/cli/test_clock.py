"""What is told of clocks and timers."""

from __future__ import annotations

import pytest
from ecumene import ClockState, TimerInfo, ns
from ecumene.cli import clock
from ecumene.cli.app import main
from ecumene.cli.clock import describe_clock, describe_timer


def test_a_clock_is_told_with_what_holds_it() -> None:
    state = ClockState(
        path="/town",
        mode="event_driven",
        now_ns=ns(hours=2),
        rate=1.0,
        paused=True,
        target_ns=ns(hours=3),
        lookahead_ns=ns(minutes=5),
        timers=1_200,
        next_due_ns=ns(hours=2, minutes=30),
        held_by=("worker-1 is busy", "/ stands at 1h55m"),
        participants_path="/town/workers",
        stepping=True,
    )
    assert describe_clock(state) == [
        ("mode", "event-driven, paused"),
        ("time", "2h (7,200,000,000,000 ns)"),
        ("participants in", "/town/workers"),
        ("on a step", "one jump, as soon as everybody is idle"),
        ("on its way to", "3h (10,800,000,000,000 ns)"),
        ("ahead of the one above", "at most 5m"),
        ("timers", "1,200"),
        ("next timer", "2h30m (9,000,000,000,000 ns)"),
        ("held by", "worker-1 is busy"),
        ("held by", "/ stands at 1h55m"),
    ]


def test_a_clock_that_nothing_holds_is_told_in_three_lines() -> None:
    state = ClockState("/", "realtime", 0, 60.0, False, None, None, 0, None, ())
    told = [("mode", "realtime, 60 simulated seconds a second"), ("time", "0s (0 ns)"), ("timers", "0")]
    assert describe_clock(state) == told


def test_timers_are_rows() -> None:
    once = describe_timer(TimerInfo("bell", ns(1), 0, "coalesce", None, 0))
    assert once == ("bell", "1s (1,000,000,000 ns)", "once", None, 0, None)
    again = describe_timer(TimerInfo("tick", 0, ns(hours=1), "catch_up", {"a": 1}, 7))
    assert again == ("tick", "0s (0 ns)", "1h", "catch up", 7, '{"a": 1}')


@pytest.mark.parametrize("command", [["advance", "/a", "1h"], ["step", "/a"], ["skip", "/a", "2d"]])
def test_who_interrupts_a_clock_on_its_way_is_told_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(clock, "run_in_world", interrupt)
    assert main(["clock", *command]) == 130
    told = capsys.readouterr().err
    assert "the clock of /a may be on its way still" in told and "ecumene clock pause /a" in told
