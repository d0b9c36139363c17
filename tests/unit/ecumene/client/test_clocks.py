"""Durations are exact, and clocks are declared by what makes them go."""

from __future__ import annotations

import ecumene
import pytest
from ecumene import Clock, ns


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 0),
        ({"seconds": 1}, 10**9),
        ({"minutes": 90}, 5_400_000_000_000),
        ({"hours": 1, "minutes": 30, "seconds": 2}, 5_402_000_000_000),
        ({"days": 365 * 200}, 200 * 365 * 86_400 * 10**9),
        ({"seconds": 0.1}, 100_000_000),
        ({"hours": 0.5}, 1_800_000_000_000),
        ({"days": -1}, -86_400 * 10**9),
        ({"seconds": 9_007_199_254}, 9_007_199_254 * 10**9),
    ],
)
def test_durations_are_whole_nanoseconds(given: dict[str, float], expected: int) -> None:
    assert ns(**given) == expected
    assert type(ns(**given)) is int


@pytest.mark.parametrize(
    "given",
    [{"days": 106_752}, {"seconds": float("nan")}, {"hours": float("inf")}, {"seconds": "x"}, {"days": 10**5000}],
)
def test_what_is_no_duration_is_refused(given: dict[str, float]) -> None:
    with pytest.raises(ecumene.InvalidFieldError, match="ns: "):
        ns(**given)


def test_clocks_are_named_by_what_makes_them_go() -> None:
    assert Clock.manual(5, paused=True) == Clock("manual", start_ns=5, paused=True)
    assert Clock.realtime(60.0, lookahead_ns=ns(1)) == Clock("realtime", rate=60.0, lookahead_ns=10**9)
    assert Clock.event_driven().mode == "event_driven"
