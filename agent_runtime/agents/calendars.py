"""Simulated time as people tell it: dates and hours of a named zone, whatever the zone of the machine.

A calendar says which instant the clock's 0 is. Instants are counted in whole nanoseconds; only to be shown do they
become local times, so that a day on which clocks are put forward has its 23 hours.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, model_validator

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US_NS, _SECOND_NS, _DAYS_LOOKED_AT = 1_000, 10**9, 4

ClockTime = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
"""An hour and minute of a day."""


class Calendar(BaseModel):
    """The parameter: `start`, a date and time in ISO 8601, is what the clock's 0 is, in the zone unless it says where.

    Raises ValueError: there is no such zone, or the zone's clocks show that time twice or never.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: str
    zone: str

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.describe(0)
        return self

    def model_post_init(self, context: Any, /) -> None:
        """Reads them once."""
        try:
            self._zone = ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(f"there is no time zone {self.zone!r}, such as Europe/Berlin") from error
        try:
            start = datetime.fromisoformat(self.start)
        except ValueError as error:
            raise ValueError(f"{self.start!r} is no date and time, such as 2026-05-01T00:00") from error
        if start.tzinfo is None:
            start = self._place(start)
        self._start_ns = (start - EPOCH) // timedelta(microseconds=1) * _US_NS

    _zone: ZoneInfo
    _start_ns: int

    def describe(self, at_ns: int) -> str:
        """A time of the clock as people tell it: `Friday 2026-05-01 07:00 (Europe/Berlin)`."""
        try:
            local = self._tell(at_ns)
        except OverflowError:
            return f"{at_ns / _SECOND_NS:g} s"
        shown = local.strftime("%H:%M:%S") if local.second else local.strftime("%H:%M")
        return f"{_DAYS[local.weekday()]} {local.date().isoformat()} {shown} ({self.zone})"

    def find_next(self, after_ns: int, times: tuple[ClockTime, ...]) -> int:
        """The first instant after a time of the clock at which the zone's clocks show one of some times of the day.

        A time that they skip on some day comes as much later as they do; one that they show twice comes once.
        """
        today = self._tell(after_ns).date() - timedelta(days=1)
        instants = (
            self._find(today + timedelta(days=days), time.fromisoformat(at))
            for days in range(_DAYS_LOOKED_AT)
            for at in times
        )
        return min(instant for instant in instants if instant > after_ns)

    def _find(self, day: date, at: time) -> int:
        instant = datetime.combine(day, at, tzinfo=self._zone).astimezone(UTC)
        return (instant - EPOCH) // timedelta(microseconds=1) * _US_NS - self._start_ns

    def _tell(self, at_ns: int) -> datetime:
        return (EPOCH + timedelta(microseconds=(self._start_ns + at_ns) // _US_NS)).astimezone(self._zone)

    def _place(self, start: datetime) -> datetime:
        local = start.replace(tzinfo=self._zone)
        if local.replace(fold=1).utcoffset() != local.utcoffset():
            raise ValueError(f"in {self.zone} clocks are changed at {self.start}: write it with its offset, +01:00")
        return local


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
