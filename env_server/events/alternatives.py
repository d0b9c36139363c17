"""Filters with alternatives: what matches any of several filters, in the one order of events."""

from collections.abc import Sequence
from itertools import takewhile

from env_server.events.filters import Matcher
from env_server.model.changes import Changes, Place
from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.names import ROOT, check_count
from env_server.model.views import View
from env_server.model.watching import Filter


class AnyMatcher:
    """Stands for several matchers; to an index it is one that is found by no more than its root and its types."""

    __slots__ = ("_parts", "actor", "key", "region", "root", "roots", "types")

    def __init__(self, parts: Sequence[Matcher]) -> None:
        self._parts = tuple(parts)
        self.roots = tuple(part.root for part in self._parts)
        """Everything matching equals one of these environments, or lies below it."""
        self.root = _common_root(self.roots)
        """The deepest environment of which that is true alone."""
        typed = all(part.types for part in self._parts)
        self.types: frozenset[int] = frozenset().union(*(part.types for part in self._parts)) if typed else frozenset()
        self.key = self.actor = ""
        self.region = b""

    def matches_place(self, place: Place) -> bool:
        """Whether the path and the labels match."""
        return any(part.matches_place(place) for part in self._parts)

    def matches_key(self, key: str) -> bool:
        """Whether the key matches one of them; perhaps one whose place does not."""
        return any(part.matches_key(key) for part in self._parts)

    def select(self, changes: Changes, first_row: int = 0) -> list[int] | None:
        """Indexes of the matching rows from `first_row` on, ascending; None = all rows of the group."""
        found: set[int] = set()
        for part in self._parts:
            rows = part.select(changes, first_row)
            if rows is None:
                return None
            found.update(rows)
        return None if len(found) == len(changes) else sorted(found)


def compile_filter(asked: Filter, limits: Limits, view: View | None = None) -> Matcher | AnyMatcher:
    """Compiles a filter, with its alternatives, for a group with this view.

    Raises:
        InvalidRequest, DeniedView: as Matcher; INVALID_FIELD: alternatives beside something else, or within one.
        LimitExceeded: filter_alternatives_max.
    """
    if not asked.any_of:
        return Matcher(asked, limits, view)
    check_count(len(asked.any_of), "filter_alternatives_max", limits)
    if asked != Filter(any_of=asked.any_of) or any(one.any_of for one in asked.any_of):
        raise InvalidRequest(Reason.INVALID_FIELD, "filter.any_of", "stands alone, and is not nested")
    if len(asked.any_of) == 1:
        return Matcher(asked.any_of[0], limits, view)
    return AnyMatcher([Matcher(one, limits, view) for one in asked.any_of])


def _common_root(roots: Sequence[str]) -> str:
    split = [root[1:].split("/") if root != ROOT else [] for root in roots]
    same = takewhile(lambda segments: len(set(segments)) == 1, zip(*split, strict=False))
    return ROOT + "/".join(segments[0] for segments in same)
