"""Progress: a bar on a terminal, lines elsewhere, and never on stdout."""

from __future__ import annotations

import io

import pytest
from ecumene.cli import progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_elsewhere_a_line_comes_now_and_then_with_rate_and_time_left() -> None:
    stream = io.StringIO()
    now = [0.0]
    lines = progress._Lines("reports", 1000, "reports", stream, clock=lambda: now[0])
    for at_s, done in ((0.5, 100), (2.5, 500), (3.0, 600)):
        now[0] = at_s
        lines.show(done, "round 1")
    assert stream.getvalue() == "reports round 1: 500 of 1,000, 200 reports/s, 2 s left\n"


def test_what_was_done_in_an_earlier_life_has_no_part_in_the_rate() -> None:
    stream = io.StringIO()
    now = [0.0]
    lines = progress._Lines("turns", 1000, "turns", stream, clock=lambda: now[0])
    for at_s, done in ((1.0, 900), (5.0, 940)):
        now[0] = at_s
        lines.show(done, "round 10")
    assert stream.getvalue().splitlines()[-1] == "turns round 10: 940 of 1,000, 10 turns/s, 6 s left"


def test_a_standstill_is_told_rarely_and_has_no_time_left() -> None:
    stream = io.StringIO()
    now = [0.0]
    lines = progress._Lines("reports", 10, "reports", stream, clock=lambda: now[0])
    for at_s in range(3, 32):
        now[0] = float(at_s)
        lines.show(0, "round 1")
    assert stream.getvalue() == "reports round 1: 0 of 10, 0 reports/s\n" * 2


@pytest.mark.parametrize(
    ("rate", "text"), [(0, "0 turns/s"), (0.25, "15 turns/min"), (1, "1 turns/s"), (13_440.2, "13,440 turns/s")]
)
def test_a_slow_rate_is_told_by_the_minute(rate: float, text: str) -> None:
    assert progress.describe_rate(rate, "turns") == text


def test_a_terminal_gets_a_bar_and_notes_stay_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with progress.show_progress("reports", 10, "reports", stream=stream) as display:
        display.show(5, "round 1")
        display.note("round 1: mean [31.5]")
    assert "round 1: mean [31.5]" in stream.getvalue()
    assert "\x1b[" in stream.getvalue()


def test_without_a_terminal_nothing_is_drawn() -> None:
    stream = io.StringIO()
    with progress.show_progress("reports", 10, "reports", stream=stream) as display:
        display.note("a line")
    assert stream.getvalue() == "a line\n"
