"""Simulated time as people tell it; case 42: local times that were taken in the host's zone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from agent_runtime.agents.calendars import Calendar

HOUR = 3_600 * 10**9


@pytest.fixture(params=["Asia/Kolkata", "America/New_York", "UTC"])
def host_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_zone_of_the_machine_has_no_say(host_zone: None) -> None:
    local = Calendar(start="2026-05-01T00:00", zone="Europe/Berlin")
    assert local.describe(7 * HOUR) == "Friday 2026-05-01 07:00 (Europe/Berlin)"
    assert local.describe(-HOUR + 5 * 10**9) == "Thursday 2026-04-30 23:00:05 (Europe/Berlin)"
    placed = Calendar(start="2026-05-01T00:00+00:00", zone="Asia/Tokyo")
    assert placed.describe(0) == "Friday 2026-05-01 09:00 (Asia/Tokyo)"


def test_days_on_which_clocks_are_changed_have_their_length() -> None:
    spring = Calendar(start="2026-03-28T12:00", zone="Europe/Berlin")
    assert spring.describe(24 * HOUR) == "Sunday 2026-03-29 13:00 (Europe/Berlin)"
    assert spring.find_next(0, ("12:00",)) == 23 * HOUR
    assert spring.describe(spring.find_next(0, ("02:30",))) == "Sunday 2026-03-29 03:30 (Europe/Berlin)"
    autumn = Calendar(start="2026-10-24T12:00", zone="Europe/Berlin")
    assert autumn.find_next(0, ("12:00",)) == 25 * HOUR
    first = autumn.find_next(0, ("02:30",))
    assert first == 14 * HOUR + HOUR // 2
    assert autumn.find_next(first, ("02:30",)) == first + 25 * HOUR, "once, although it is shown twice"


def test_the_next_of_several_times_of_a_day() -> None:
    calendar = Calendar(start="2026-05-01T00:00", zone="Europe/Berlin")
    times = ("19:00", "07:00")
    now, found = 0, []
    for _ in range(4):
        now = calendar.find_next(now, times)
        found.append(now // HOUR)
    assert found == [7, 19, 31, 43]


@pytest.mark.parametrize(
    ("start", "zone", "problem"),
    [
        ("2026-05-01T00:00", "Europe/Atlantis", "no time zone"),
        ("2026-05-01T00:00", "../passwd", "no time zone"),
        ("2026-05-01T00:00", "", "no time zone"),
        ("noon", "UTC", "no date and time"),
        ("2026-03-29T02:30", "Europe/Berlin", "clocks are changed"),
        ("2026-10-25T02:30", "Europe/Berlin", "clocks are changed"),
    ],
)
def test_what_is_no_calendar_says_so(start: str, zone: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Calendar(start=start, zone=zone)


def test_times_beyond_all_calendars_are_told_as_they_are() -> None:
    assert Calendar(start="9990-01-01T00:00", zone="UTC").describe(2**62) == "4.61169e+09 s"
