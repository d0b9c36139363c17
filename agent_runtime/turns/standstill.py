"""Tells of agents who are woken again and again while their clock stands, which may go on for ever."""

from __future__ import annotations

import logging

logger = logging.getLogger("ecumene.runtime")

TOLD_AT = 10_000
"""Wakings in one instant that are worth a word; then again each time that they are ten times as many."""


class Standstill:
    """Of one part. Two ways lead there: agents who wake each other by what they do, while the clock waits for them;
    and agents whose wakes are so near to each other that they never come to where the clock has gone already.

    Nobody is kept from it: what is told may be a long conversation, or a year that is caught up with.
    """

    def __init__(self, part: str) -> None:
        self._part = part
        self._now_ns: int | None = None
        self._wakings = 0
        self._told_at = TOLD_AT

    def note_event(self, now_ns: int | None) -> None:
        """What happened at a time of a clock that waits for the part has woken some of its agents; None = no time."""
        if self._count(now_ns):
            text = "the clock by which agents of %s live waits for them at %d ns, where they were woken %d times: if %s"
            logger.warning(text, self._part, now_ns, self._wakings, "they wake each other, it never goes on")

    def note_wake(self, now_ns: int | None, next_ns: int | None) -> None:
        """The part's timer has fired at a time of the clock, and somebody wants to be woken next at `next_ns`."""
        if self._count(now_ns) and now_ns is not None and next_ns is not None and next_ns <= now_ns:
            text = "agents of %s were woken %d times since their clock came to %d ns, and are %d ns behind it: if %s"
            said = "their wakes are too near to each other, they never catch up"
            logger.warning(text, self._part, self._wakings, now_ns, now_ns - next_ns, said)

    def _count(self, now_ns: int | None) -> bool:
        """Whether it is time to say something. Times before the last one are of other clocks."""
        if now_ns is None or (self._now_ns is not None and now_ns < self._now_ns):
            return False
        if now_ns != self._now_ns:
            self._now_ns, self._wakings, self._told_at = now_ns, 0, TOLD_AT
        self._wakings += 1
        if self._wakings < self._told_at:
            return False
        self._told_at = 10 * self._wakings
        return True
