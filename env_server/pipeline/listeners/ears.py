"""Ears: what one listener of one environment still has to hear.

An ear holds a few events. When more come it lets them pass, is behind, and finds them again in the ring or the log once
it has heard those that it holds.
"""

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from env_server.behaviours.behaviour import Listener
from env_server.behaviours.event import Event
from env_server.events.filters import Matcher
from env_server.model.changes import Changes, EventType
from env_server.model.limits import Limits
from env_server.model.names import ROOT
from env_server.model.values import Nothing, size_of
from env_server.model.watching import Filter
from env_server.pipeline.listeners.depths import depth_of
from env_server.state_tree.nodes import Node

EVENTS_MAX: Final = 64
EVENTS_BYTES_MAX: Final = 256 * 1024
_MAGIC: Final = re.compile(r"[*?\[]")

Position = tuple[int, int]
"""A revision and an index in it: everything before it is dealt with."""


class Gap:
    """Revisions that an ear will never hear, and why."""

    __slots__ = ("first", "last", "message", "reason")

    def __init__(self, first: int, last: int, reason: str, message: str) -> None:
        self.first = first
        self.last = last
        self.reason = reason
        self.message = message


class Ear:
    """One listener of one environment."""

    __slots__ = (
        "_bytes",
        "_only_path",
        "events",
        "gap",
        "heard",
        "is_behind",
        "is_reading",
        "listener",
        "matcher",
        "node",
        "number",
    )

    def __init__(
        self, number: int, node: Node, listener: Listener, matcher: Matcher, heard: Position, is_single: bool
    ) -> None:
        #: Unique; the order in which those that hear the same event are told.
        self.number = number
        self.node = node
        self.listener = listener
        self.matcher = matcher
        #: The only environment that it hears; "" = there may be several.
        self._only_path = matcher.root if is_single else ""
        #: Everything before it is dealt with; of an ear that has nothing to hear, whatever was routed is.
        self.heard = heard
        self.events: deque[Event] = deque()
        self._bytes = 0
        self.is_behind = False
        #: Whether the log is being read for it.
        self.is_reading = False
        self.gap: Gap | None = None

    @property
    def fact_key(self) -> str:
        """Under which its position is kept."""
        return f"{self.node.number}/{self.listener.name}"

    @property
    def is_lagging(self) -> bool:
        """Whether it has anything to hear."""
        return bool(self.events or self.is_behind or self.gap)

    @property
    def is_full(self) -> bool:
        """Whether it holds as many events as it may."""
        return len(self.events) >= EVENTS_MAX or self._bytes >= EVENTS_BYTES_MAX

    @property
    def next_position(self) -> Position | None:
        """Of what it hears next, as far as it is at hand."""
        if self.gap is not None:
            return self.gap.first, 0
        return (self.events[0].revision, self.events[0].index) if self.events else None

    def take(self, event: Event) -> None:
        """Holds one more event; failures of listeners only when it asked for them by name."""
        if event.type == EventType.LISTENER_FAILED and not self.listener.types:
            return
        self.events.append(event)
        self._bytes += 64 if isinstance(event.stored, Nothing) else size_of(event.stored)

    def has_heard(self, event: Event) -> None:
        """Has dealt with the event that comes first."""
        taken = self.events.popleft()
        assert taken is event
        self._bytes -= 64 if isinstance(event.stored, Nothing) else size_of(event.stored)
        self.heard = event.revision, event.index + 1

    def skip(self, gap: Gap) -> None:
        """Gives up the revisions of the gap and all that it held of them."""
        self.gap = gap
        self.events.clear()
        self._bytes = 0
        self.is_behind = False

    def has_skipped(self) -> None:
        """The gap is told."""
        assert self.gap is not None
        self.heard = max(self.heard, (self.gap.last + 1, 0))
        self.gap = None

    def select(self, changes: Changes, rows_of: Callable[[str], Sequence[int]]) -> Iterable[int]:
        """Rows of a group that it has to hear; failures of listeners may be among them that it does not want.

        `rows_of` tells the rows of a path: most ears hear a single environment, and there are many of them.
        """
        found: Iterable[int]
        if self._only_path:
            types, matches_key = self.matcher.types, self.matcher.matches_key
            found = [
                row
                for row in rows_of(self._only_path)
                if (not types or changes.types[row] in types) and matches_key(changes.keys[row])
            ]
        else:
            rows = self.matcher.select(changes)
            found = range(len(changes)) if rows is None else rows
        if changes.base_revision >= self.heard[0]:
            return found
        revision, index = self.heard
        first = bisect_left(changes.revisions, revision) + index
        return [row for row in found if row >= first]


class RowsByPath:
    """The rows of each path in a group, found once for all ears."""

    def __init__(self) -> None:
        #: The group whose rows were sorted last.
        self._sorted: Changes | None = None
        self._by_path: dict[str, list[int]] = {}

    def of(self, changes: Changes) -> Callable[[str], Sequence[int]]:
        """Tells the rows of a path in this group."""
        if self._sorted is not changes:
            self._sorted = changes
            by_place: dict[int, list[int]] = {}
            for row, place in enumerate(changes.path):
                by_place.setdefault(place, []).append(row)
            self._by_path = {}
            for place, rows in by_place.items():
                path = changes.places[place].path
                known = self._by_path.get(path)  # twice in the group when its labels changed
                self._by_path[path] = rows if known is None else sorted([*known, *rows])
        return lambda path: self._by_path.get(path, ())


def make_ear(number: int, node: Node, listener: Listener, heard: Position, limits: Limits) -> Ear:
    """An ear of an environment.

    Raises:
        InvalidRequest: the listener's globs are malformed.
    """
    glob = _absolute(node.path, listener.path)
    asked = Filter(path_glob=glob, key_glob=listener.key, types=listener.types)
    return Ear(number, node, listener, Matcher(asked, limits), heard, is_single=not _MAGIC.search(glob))


def make_event(world: str, changes: Changes, row: int) -> Event:
    """A row as listeners hear it."""
    revision = changes.revisions[row]
    index = row - bisect_left(changes.revisions, revision)
    place = changes.places[changes.path[row]]
    return Event(
        f"{world}/{revision}.{index}",
        revision,
        index,
        EventType(changes.types[row]),
        place.path,
        changes.keys[row],
        changes.told_value(row),
        changes.versions[row],
        changes.actors[row],
        changes.causes[row],
        depth_of(changes, row),
        changes.told_position(row),
        place.sim_time_ns,
    )


def _absolute(path: str, relative: str) -> str:
    """A glob over whole paths from one that is relative to an environment, whose own name is no glob."""
    if relative.startswith("/"):
        return relative
    literal = _MAGIC.sub(lambda found: f"[{found[0]}]", path)
    if not relative:
        return literal
    return f"{'' if literal == ROOT else literal}/{relative}"
