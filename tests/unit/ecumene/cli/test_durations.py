"""Durations are read and shown exactly, to the nanosecond."""

from __future__ import annotations

import pytest
from ecumene.cli.durations import parse_duration, parse_time_ahead, show_moment
from ecumene.cli.failures import UsageError
from ecumene.client.durations import show_duration
from hypothesis import given
from hypothesis import strategies as st

H = 3_600_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("90", 90),
        ("1h30m", H + H // 2),
        ("2d", 48 * H),
        ("500ms", 500_000_000),
        ("1.5h", H + H // 2),
        ("1d 2h 3m 4s 5ms 6us 7ns", 26 * H + 184_005_006_007),
        ("1H", H),
        ("3\u00b5s", 3_000),
        ("3\u03bcs", 3_000),
        (" 1h  30m ", H + H // 2),
        ("0.1s", 100_000_000),
        ("-1h", -H),
        ("9223372036854775807", 2**63 - 1),
        ("0.000000001s", 1),
    ],
)
def test_durations_are_read(text: str, expected: int) -> None:
    assert parse_duration(text) == expected


def test_time_does_not_go_back() -> None:
    assert parse_time_ahead("0") == 0
    assert parse_time_ahead("1h") == H
    with pytest.raises(UsageError, match="'-5m' is negative"):
        parse_time_ahead("-5m")


NO_DURATIONS = "h .5h 1.h 1x 1h1h 30m1h 1e9 1.5 0.5ns 1h30 ٣h nan --1h 9223372036854775808".split()  # noqa: SIM905


@pytest.mark.parametrize("text", [*NO_DURATIONS, "", "1 0", "1 h", "- 1h", f"1.{'0' * 40}1s"])
def test_what_is_no_duration_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(text)
    assert repr(text) in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 5000 + "h", f"1.{'0' * 5000}s"])
def test_what_goes_on_for_ever_is_refused_in_a_short_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(text)
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize(
    ("duration_ns", "shown"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5us"),
        (20_000_000, "20ms"),
        (10**9, "1s"),
        (H + H // 2, "1h30m"),
        (100 * 24 * H, "100d"),
        (24 * H + 1_500_000_000, "1d1.5s"),
        (-H, "-1h"),
    ],
)
def test_durations_are_shown_short(duration_ns: int, shown: str) -> None:
    assert show_duration(duration_ns) == shown


def test_a_moment_is_shown_both_ways() -> None:
    assert show_moment(H) == "1h (3,600,000,000,000 ns)"


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_what_is_shown_is_read_as_the_same(duration_ns: int) -> None:
    assert parse_duration(show_duration(duration_ns)) == duration_ns
