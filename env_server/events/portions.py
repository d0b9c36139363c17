"""Cutting what a watch is owed into steps of whole revisions, and leaving out what later events replace."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from env_server.events.alternatives import AnyMatcher
from env_server.model.changes import Changes, EventType

_CONFLATE_ROWS_MAX = 32_768
"""Rows looked through in one go to find the last of each key."""

# Events of one family and key replace each other; an entry and a gate may share a name and do not. What an entry holds,
# where it is, and that it is a member are told by events of their own, so none of them replaces another; only
# crossings of one border replace each other.
_ENVIRONMENT, _VALUE, _GATE, _MOVE, _MEMBER, _DELETION, _REGION, _PROXIMITY = range(-1, -9, -1)
_FAMILIES = {
    EventType.ENVIRONMENT_REGISTERED: _ENVIRONMENT,
    EventType.ENVIRONMENT_UPDATED: _ENVIRONMENT,
    EventType.ENVIRONMENT_DELETED: _ENVIRONMENT,
    EventType.ENTRY_SET: _VALUE,
    EventType.ENTRY_INCREMENTED: _VALUE,
    EventType.ENTRY_APPENDED: _VALUE,
    EventType.ENTRY_DELETED: _DELETION,
    EventType.ENTRY_MOVED: _MOVE,
    EventType.MEMBER_JOINED: _MEMBER,
    EventType.MEMBER_LEFT: _DELETION,
    EventType.MEMBER_EXPIRED: _DELETION,
    EventType.GATE_BEGUN: _GATE,
    EventType.GATE_OPENED: _GATE,
    EventType.REGION_ENTERED: _REGION,
    EventType.REGION_LEFT: _REGION,
    EventType.PROXIMITY_ENTERED: _PROXIMITY,
    EventType.PROXIMITY_LEFT: _PROXIMITY,
}
_CROSSINGS = (_REGION, _PROXIMITY)
_OF_ENTRIES = (_VALUE, _MOVE, _MEMBER)
"""What a deletion replaces. It stays itself, whatever comes after it: what is made anew under the key has nothing of
what was there before, neither place nor kind, and no event of its own says so."""


class Plan(NamedTuple):
    """What is to be delivered of some groups."""

    portions: "list[Portion]"
    """The next one last."""
    groups: int
    """How many of the groups it deals with."""
    cursor: int
    """Every match up to this revision was delivered before."""
    left_out: int
    """Events replaced by later ones."""


def plan_portions(groups: Iterable[Changes | None], matcher: AnyMatcher, cursor: int, *, conflating: bool) -> Plan:
    """Selects what a watch that got everything up to `cursor` is owed of consecutive groups, all still held.

    Ends with the first group that matches; for a conflating watch with the last one, or after 32,768 matching rows.
    """
    selected: list[tuple[Changes, list[int] | None]] = []
    dealt_with = rows_seen = 0
    for changes in groups:
        assert changes is not None
        dealt_with += 1
        rows = matcher.select(
            changes, 0 if changes.base_revision >= cursor else bisect_right(changes.revisions, cursor)
        )
        if rows is None or rows:
            selected.append((changes, rows))
            rows_seen += len(changes) if rows is None else len(rows)
            if not conflating or rows_seen > _CONFLATE_ROWS_MAX:
                break
        elif not selected:
            cursor = max(cursor, changes.last_revision)
    if len(selected) > 1:
        portions, left_out = conflate(selected)
        return Plan(portions, dealt_with, cursor, left_out)
    return Plan([Portion(changes, rows) for changes, rows in selected], dealt_with, cursor, 0)


class Portion:
    """Rows of one group on their way to one watch; `rows` None = all. Not empty."""

    __slots__ = ("_rows", "_taken", "changes", "conflated")

    def __init__(self, changes: Changes, rows: list[int] | None, conflated: bool = False) -> None:
        self.changes = changes
        self.conflated = conflated
        self._rows = rows
        self._taken = 0

    @property
    def is_done(self) -> bool:
        """Whether everything was taken."""
        return self._taken == self._count

    @property
    def _count(self) -> int:
        return len(self.changes.keys) if self._rows is None else len(self._rows)

    def take(self, events_max: int) -> tuple[list[int] | None, int]:
        """The next rows, at most `events_max` but at least one revision, and the revision that they complete.

        Rows None = all of the group.
        """
        count, start = self._count, self._taken
        if count - start <= events_max:
            self._taken = count
            rows = self._rows if start == 0 or self._rows is None else self._rows[start:]
            if start and rows is None:
                rows = list(range(start, count))
            return rows, self.changes.last_revision
        if self._rows is None:
            self._rows = list(range(count))
        self._taken = end = self._find_cut(start, events_max)
        if end == count:
            return (None if start == 0 and count == len(self.changes.keys) else self._rows[start:]), (
                self.changes.last_revision
            )
        return self._rows[start:end], self.changes.revisions[self._rows[end]] - 1

    def _find_cut(self, start: int, events_max: int) -> int:
        """The last revision boundary within `events_max` rows of `start`, or else the first one after it."""
        rows, revisions = self._rows, self.changes.revisions
        assert rows is not None
        end = start + max(events_max, 1)
        cut = min(end, len(rows))
        while cut > start and cut < len(rows) and revisions[rows[cut]] == revisions[rows[cut - 1]]:
            cut -= 1
        if cut > start:
            return cut
        while end < len(rows) and revisions[rows[end]] == revisions[rows[end - 1]]:
            end += 1
        return min(end, len(rows))


def conflate(selected: Sequence[tuple[Changes, list[int] | None]]) -> tuple[list[Portion], int]:
    """Portions with the last event of each family and key alone, the first revision last; events left out.

    Who keeps a picture of what is there, event by event, has the same one in the end as from all of them.
    """
    seen: set[tuple[int, str, int, bytes]] = set()
    kept: list[tuple[Changes, list[int]]] = []
    left_out = 0
    for changes, rows in reversed(selected):
        places, path, keys, types = changes.places, changes.path, changes.keys, changes.types
        wanted: list[int] = []
        for row in reversed(range(len(keys)) if rows is None else rows):
            number, key, type_ = places[path[row]].number, keys[row], types[row]
            family = _FAMILIES.get(type_, type_)  # type: ignore[call-overload]
            border = changes.values[row].text if family in _CROSSINGS else b""  # type: ignore[union-attr]
            name = number, key, family, border
            if name in seen or (family in _OF_ENTRIES and (number, key, _DELETION, b"") in seen):
                left_out += 1
            else:
                seen.add(name)
                wanted.append(row)
        if wanted:
            wanted.reverse()
            kept.append((changes, wanted))
    portions = [
        Portion(changes, None if len(rows) == len(changes.keys) else rows, left_out > 0) for changes, rows in kept
    ]
    return portions, left_out
