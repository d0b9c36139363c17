"""What watches tell about themselves: plain numbers, read at any time, never reset."""

from dataclasses import dataclass
from enum import Enum


class WatchState(Enum):
    """Where a watch gets its next step from."""

    INITIAL = "initial"
    """The snapshot it asked for."""
    LIVE = "live"
    """What is published concerns it at once."""
    CATCHING_UP = "catching_up"
    """Groups published before, from the ring or the log."""
    ENDED = "ended"
    """Nowhere: it only repeats why it ended."""


@dataclass(slots=True)
class WatchStatistics:
    """One watch, since it was opened."""

    state: WatchState = WatchState.CATCHING_UP
    delivered_revision: int = 0
    """Every match up to it was delivered."""
    behind_revisions: int = 0
    """Durable revisions above that one which are not known to be free of matches."""
    pending_groups: int = 0
    """Published groups noted for a live watch that it did not take yet."""
    events: int = 0
    steps: int = 0
    fallbacks: int = 0
    """Times that it was too slow for live delivery and went back to its cursor."""
    log_reads: int = 0
    log_bytes: int = 0
    conflated_events: int = 0
    """Events left out in favour of later ones of the same key."""


@dataclass(slots=True)
class HubStatistics:
    """All watches of a world, since it was opened."""

    watches: int = 0
    watches_live: int = 0
    groups: int = 0
    """Published."""
    events: int = 0
    """Published rows, matched or not."""
    offers: int = 0
    """Groups noted for watches: the cost of publishing."""
    ring_groups: int = 0
    ring_bytes: int = 0
    backlog_bytes: int = 0
    """Encoded size of what was read from the log and not delivered yet."""
    log_reads: int = 0
