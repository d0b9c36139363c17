"""The entries that a watch starts from, as rows of type INITIAL.

Path, labels and key of the filter apply. Types, actor and excluded producer do not: they describe a change, and an
entry of now is not one. A row carries the entry's version, the revision of its last change, its value and its position;
a stream's row carries NOTHING, its items are read with a query.
"""

from itertools import islice

from env_server.model.changes import Changes, EventType, Place
from env_server.model.entries import StreamEnds
from env_server.model.values import NOTHING
from env_server.model.watching import EntryMatcher, Snapshot

SLICE_ROWS_MAX = 4096
_SCAN_ROWS_MAX = 16_384


class InitialState:
    """A snapshot being handed out."""

    def __init__(self, snapshot: Snapshot, matcher: EntryMatcher) -> None:
        self.revision = snapshot.revision
        self.is_done = False
        self._rows = iter(snapshot.rows)
        self._matcher = matcher
        self._place: Place | None = None
        self._place_matches = False

    def take(self, rows_max: int) -> Changes | None:
        """The next slice, at most `rows_max` and 4,096 rows; None when this stretch of the snapshot had no match.

        `is_done` when it was the last stretch.
        """
        changes = Changes(number=0, base_revision=self.revision, last_revision=self.revision)
        wanted = min(max(rows_max, 1), SLICE_ROWS_MAX)
        scanned = 0
        numbers: dict[int, int] = {}
        for place, key, entry in islice(self._rows, _SCAN_ROWS_MAX):
            scanned += 1
            if place is not self._place:
                self._place, self._place_matches = place, self._matcher.matches_place(place)
            if not self._place_matches or not self._matcher.matches_key(key):
                continue
            index = numbers.get(place.number)
            if index is None:
                index = numbers[place.number] = len(changes.places)
                changes.places.append(place)
            if entry.position is not None:
                changes.positions[len(changes.keys)] = entry.position
            changes.path.append(index)
            changes.keys.append(key)
            changes.values.append(NOTHING if type(entry.value) is StreamEnds else entry.value)
            changes.versions.append(entry.version)
            changes.revisions.append(entry.modified)
            if len(changes.keys) == wanted:
                break
        else:
            self.is_done = scanned < _SCAN_ROWS_MAX
        return _fill(changes) if changes.keys else None


def _fill(changes: Changes) -> Changes:
    """Completes the columns that say nothing about an entry."""
    count = len(changes.keys)
    changes.types = [int(EventType.INITIAL)] * count
    changes.producer_seqs = [0] * count
    changes.producers = changes.actors = changes.causes = changes.principals = [""] * count
    return changes
