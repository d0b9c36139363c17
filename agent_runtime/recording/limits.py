"""The bounds of a recorder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """How much may wait in memory, and when a part is closed.

    Attributes:
        part_age_ms_max: a part is begun at the latest this long after its first row. With the time
            of one write, rows are on disk within 5 s.
        part_rows_max: a part is begun as soon as a table has this many rows, and holds no more.
        pending_rows_max: rows of all tables that are taken and not yet on disk.
        pending_chars_max: characters of their bulky columns (message bodies, JSON values).
    """

    part_age_ms_max: int = 2_000
    part_rows_max: int = 250_000
    pending_rows_max: int = 1_000_000
    pending_chars_max: int = 64_000_000

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.part_age_ms_max > 4_000:
            raise ValueError(f"part_age_ms_max {self.part_age_ms_max} leaves no time to write within 5 s")
