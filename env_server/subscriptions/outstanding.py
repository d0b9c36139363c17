"""What a consumer was delivered and has not acknowledged: the revision of each event, eight bytes."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

_SLACK: Final = 1024
"""Acknowledged events in front before they are cut off."""


class Outstanding:
    """Revisions in order. What is acknowledged is asked each time, since a transaction may take it back."""

    __slots__ = ("_revisions", "_start")

    def __init__(self) -> None:
        self._revisions: array[int] = array("Q")
        self._start = 0

    def count_after(self, acknowledged: int) -> int:
        """Events above this revision."""
        return len(self._revisions) - bisect_right(self._revisions, acknowledged, self._start)

    def add(self, revisions: Iterable[int], acknowledged: int) -> None:
        """Adds later events, and forgets those up to `acknowledged` for good. Never within a transaction."""
        self._start = bisect_right(self._revisions, acknowledged, self._start)
        if self._start > _SLACK and self._start > len(self._revisions) // 2:
            del self._revisions[: self._start]
            self._start = 0
        self._revisions.extend(revisions)

    def clear(self) -> None:
        """Forgets all."""
        self._revisions = array("Q")
        self._start = 0
