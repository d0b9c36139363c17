"""What a log may forget: whatever is too old or too much, and what somebody asked it to; never what is needed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

TRIMMED_RECORDS_MAX: Final = 64
"""Records that a commit takes from the beginning of the log at most, because of their age and size."""
COMPACTED_RECORDS_MAX: Final = 1024
"""Records that a commit takes from the beginning of the log at most, when it was asked to."""


@dataclass(slots=True)
class Trimming:
    """The rule of one log. The world's thread sets what is asked, the writer's reads it: plain numbers."""

    log_bytes_max: int
    log_age_ns: int
    retained: int | None = None
    """The oldest revision that somebody still needs."""
    compact_below: int = 0
    """Records wholly below this revision are to go."""

    def may_go(self, last_revision: int, number: int, applied_through: int) -> bool:
        """Whether nothing needs a record any more."""
        return number <= applied_through and (self.retained is None or last_revision < self.retained)

    def is_asked(self, last_revision: int) -> bool:
        """Whether somebody asked for a record to go."""
        return last_revision < self.compact_below

    def owes(self, last_revision: int) -> bool:
        """Whether the record, the first of the log, was asked to go and nobody but a restart needs it."""
        return self.is_asked(last_revision) and (self.retained is None or last_revision < self.retained)

    def find_held(self, last_revision: int) -> int:
        """The revision for whose sake the record, the first of the log, stays; 0 = it may go, for all that is asked."""
        retained = self.retained
        return 0 if retained is None or last_revision < retained else retained

    def is_due(self, wall_ns: int, now_ns: int, log_bytes: Callable[[], int]) -> bool:
        """Whether a record is too old, or the log too large; the size is measured only when that decides."""
        return now_ns - wall_ns > self.log_age_ns or log_bytes() > self.log_bytes_max
