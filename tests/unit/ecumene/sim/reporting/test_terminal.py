"""What a terminal shows: rounds, failures, winners, comparison, and where the plot is."""

from __future__ import annotations

import io
from typing import Any

import pytest
from ecumene.sim.reporting import Reference, render_report, report_guess_run
from ecumene.sim.reporting.terminal import compare, format_figure
from rich.console import Console

TURNS = [
    *((f"agent-{place:06d}", 1, "ok", number, True) for place, number in enumerate((10.0, 30.0, 30.0), start=1)),
    ("agent-000004", 1, "parse_error", None, False),
    ("agent-000001", 2, "timeout", None, False),
]


def test_a_report_shows_figures_failures_winners_comparison_and_plot(record_run: Any) -> None:
    directory = record_run(TURNS)
    console = Console(file=io.StringIO(), width=160)
    console.print(render_report(report_guess_run(directory)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for shown in (
        "4 agents · seed 11",
        "2/3 × mean",
        "3 of 4",
        "1 parse_error",
        "23.33",
        "15.56",
        "agent-000001 with 10.00",
        "nobody",
        "turns: 3 ok, 1 parse_error, 1 timeout",
        "theory: equilibrium (this run): 0.0 (23.3)",
        "people: Nagel 1995, round 1, n = 67 (this run): 36.7 (23.3)",
        "reproduces nobody's behaviour",
        "rounds.png",
    ):
        assert shown in " ".join(text.split()), shown


def test_why_turns_failed_is_told_by_status_with_the_commonest_reason(record_run: Any) -> None:
    reasons = ["KeyError: 'age'", "KeyError: 'age'", "it \n broke", "x" * 400]
    failed = [(f"a{place}", 1, "error", None, False, reason) for place, reason in enumerate(reasons)]
    turns = [("b", 1, "ok", 10.0, True), ("c", 1, "fallback", 20.0, True, "no answer"), *failed]
    report = report_guess_run(record_run([*turns, ("d", 1, "timeout", None, False, "y" * 400)]))
    console = Console(file=io.StringIO(), width=300)
    console.print(render_report(report))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "error: KeyError: 'age' (2 turns)" in lines
    assert f"timeout: {'y' * 150}… (1 turn)" in lines
    assert not [line for line in lines if "no answer" in line]
    assert report.to_document()["reasons"]["error"] == {"reason": "KeyError: 'age'", "turns": 2}


def test_a_narrow_terminal_cuts_no_winner_and_no_figure(record_run: Any) -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(render_report(report_guess_run(record_run(TURNS))))
    table = console.file.getvalue().partition("turns:")[0]  # type: ignore[attr-defined]
    winners = "".join(line.split("│")[-2].strip() for line in table.splitlines() if "│" in line)
    assert winners.replace(" ", "").startswith("agent-000001with10.00")
    assert "…" not in table
    assert "23.33" in table
    assert max(map(len, table.splitlines())) <= 80


def test_a_reference_without_a_common_round_says_so() -> None:
    line = compare(Reference("x", "theory", "a book", {7: 1.0}), [])
    assert line == "theory: x (this run): no round to compare; a book"


@pytest.mark.parametrize(("figure", "text"), [(None, "–"), (0.0, "0.000"), (9.87654, "9.877"), (33.3333, "33.33")])
def test_a_figure_has_the_digits_that_tell_something(figure: float | None, text: str) -> None:
    assert format_figure(figure) == text
