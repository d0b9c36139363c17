"""Filters of watches, compiled: which rows of a group a watch is told.

A decision rests only on what the change recorded (place with its labels, type, key, actor, producer, sender), never on
the state of now, so that a replay gives what the live watch got.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any, Final, cast

from env_server.model.changes import Changes, EventType, Place
from env_server.model.errors import DeniedView
from env_server.model.globs import TextTest, compile_key_glob, compile_path_glob, find_literal_prefix
from env_server.model.limits import Limits
from env_server.model.names import ROOT, split_path
from env_server.model.spaces import region_document
from env_server.model.views import HIDDEN_TYPES, View
from env_server.model.watching import Filter

TYPES: Final = "types"
ACTORS: Final = "actors"
PRODUCERS: Final = "producers"
REGIONS: Final = "regions"
"""No column: the documents of the crossings of regions."""
_FEW_PLACES: Final = 16
"""So many of a group are looked at one by one. Where there are more, those below an environment, and the rows of a
place, are found in orders that are kept with the group: thousands of filters may select from thousands of places."""
_CROSSINGS: Final = frozenset((int(EventType.REGION_ENTERED), int(EventType.REGION_LEFT)))


class Matcher:
    """A compiled filter. Immutable; one instance serves one watch for its whole life."""

    __slots__ = (
        "_accept_key",
        "_accept_path",
        "_everything",
        "_labels",
        "_nothing",
        "_prefix",
        "_view",
        "actor",
        "excluded_producer",
        "key",
        "region",
        "root",
        "types",
    )

    def __init__(self, asked: Filter, limits: Limits, view: View | None = None) -> None:
        """Compiles `asked`, for a group with this view.

        Raises:
            InvalidRequest: the prefix is no path, or a glob is malformed.
            DeniedView: the group may not see the deepest environment that everything matching equals or lies below.
        """
        prefix = asked.path_prefix or ROOT
        split_path(prefix, limits)
        self._prefix = "" if prefix == ROOT else prefix
        self._accept_path: TextTest | None = None
        self.root = prefix
        """The deepest environment that everything matching equals or lies below."""
        if asked.path_glob:
            self._accept_path = compile_path_glob(asked.path_glob, "filter.path_glob")
            literal = find_literal_prefix(asked.path_glob, "filter.path_glob")
            self.root = max(prefix, literal, key=len)
        self._view = view
        if view is not None and not view.sees(self.root):
            raise DeniedView(view.group, self.root, "see")
        self._labels = dict(asked.labels)
        self._accept_key = compile_key_glob(asked.key_glob, "filter.key_glob")
        exact = asked.key_glob and not set("*?[") & set(asked.key_glob)
        self.key = asked.key_glob if exact else ""
        """The only key that matches; "" = several may."""
        self.types = asked.types
        self.region = region_document(asked.region).text if asked.region else b""
        if self.region:
            self.types = (asked.types & _CROSSINGS) if asked.types else _CROSSINGS
        self.actor = asked.actor
        self.excluded_producer = asked.excluded_producer
        self._nothing = bool(self.region) and not self.types
        self._everything = not (
            self._accept_key or self.types or self.region or self.actor or self.excluded_producer or view
        )

    def matches_place(self, place: Place) -> bool:
        """Whether the path and the labels match."""
        path, prefix = place.path, self._prefix
        if prefix and not (path.startswith(prefix) and (len(path) == len(prefix) or path[len(prefix)] == "/")):
            return False
        if self._labels and not self._labels.items() <= place.labels.items():
            return False
        if self._view is not None and not self._view.sees(path):
            return False
        return self._accept_path is None or bool(self._accept_path(path))

    def matches_key(self, key: str) -> bool:
        """Whether the key matches."""
        return self._accept_key is None or bool(self._accept_key(key))

    def select(self, changes: Changes, first_row: int = 0) -> list[int] | None:
        """Indexes of the matching rows from `first_row` on, ascending; None = all rows of the group.

        Costs no work per row where the places, or the values that occur at all, decide for the whole group.
        """
        rows = self._select_places(changes)
        if rows != [] and not self._everything:
            rows = self._select_columns(changes, rows)
        if rows is None:
            return None if first_row == 0 else list(range(first_row, len(changes.keys)))
        if first_row:
            del rows[: bisect_left(rows, first_row)]
        return None if len(rows) == len(changes.keys) else rows

    def _select_places(self, changes: Changes) -> list[int] | None:
        if not self._prefix and self._accept_path is None and not self._labels and self._view is None:
            return None
        places = changes.places
        candidates = range(len(places)) if len(places) <= _FEW_PLACES else find_places_below(changes, self.root)
        matching = [place for place in candidates if self.matches_place(places[place])]
        if len(matching) == len(places):
            return None
        if not matching:
            return []
        if len(matching) * _FEW_PLACES < len(places):
            return find_rows_at(changes, matching)
        flags = [False] * len(places)
        for place in matching:
            flags[place] = True
        return list(compress(range(len(changes.path)), map(flags.__getitem__, changes.path)))

    def _select_columns(self, changes: Changes, rows: list[int] | None) -> list[int] | None:
        if self._view is not None and find_values(changes, TYPES) & HIDDEN_TYPES:
            rows = _narrow(rows, changes.types, _is_told)
        if self._nothing:
            return []
        if self.region and self.region not in find_regions(changes):
            return []
        if self.types and not (present := find_values(changes, TYPES)) <= self.types:
            if not present & self.types:
                return []
            rows = _narrow(rows, changes.types, self.types.__contains__)
        if self.region:
            values, region = changes.values, self.region
            candidates = range(len(values)) if rows is None else rows
            rows = [row for row in candidates if values[row].text == region]  # type: ignore[union-attr]
        if self.actor:
            actors = find_values(changes, ACTORS)
            if self.actor not in actors:
                return []
            if len(actors) > 1:
                rows = _narrow(rows, changes.actors, self.actor.__eq__)
        if self.excluded_producer:
            rows = self._leave_out_own(changes, rows)
        if self.key and rows is None:
            return _find_all(changes.keys, self.key)
        if self._accept_key is not None:
            rows = _narrow(rows, changes.keys, self._accept_key)
        return rows

    def _leave_out_own(self, changes: Changes, rows: list[int] | None) -> list[int] | None:
        """Leaves out what the excluded client is the producer of, or has sent under other producers."""
        own = self.excluded_producer
        if own in (producers := find_values(changes, PRODUCERS)):
            if len(producers) == 1:
                return []
            rows = _narrow(rows, changes.producers, own.__ne__)
        for first, count, client_id in changes.sent:
            if client_id == own:
                rows = list(range(len(changes))) if rows is None else rows
                del rows[bisect_left(rows, first) : bisect_left(rows, first + count)]
        return rows


def find_values(changes: Changes, column: str) -> frozenset[object]:
    """The distinct values of a column; found once a group and kept with it."""
    name = f"distinct {column}"
    found = changes.views.get(name)
    if found is None:
        found = changes.views[name] = frozenset(getattr(changes, column))
    return cast(frozenset[object], found)


def find_regions(changes: Changes) -> frozenset[object]:
    """The documents of all crossings of regions in a group; found once and kept with it."""
    found = changes.views.get(REGIONS)
    if found is None:
        values = changes.values
        rows = (row for row, type_ in enumerate(changes.types) if type_ in _CROSSINGS)
        texts = frozenset(values[row].text for row in rows) if find_values(changes, TYPES) & _CROSSINGS else frozenset()  # type: ignore[union-attr]
        found = changes.views[REGIONS] = texts
    return cast(frozenset[object], found)


def find_places_below(changes: Changes, path: str) -> Sequence[int]:
    """Indexes of the places that equal an environment or lie below it; found once a group and kept with it."""
    if path == ROOT:
        return range(len(changes.places))
    name = "places by path"
    found = changes.views.get(name)
    if found is None:
        paths = [place.path for place in changes.places]
        order = sorted(range(len(paths)), key=paths.__getitem__)
        found = changes.views[name] = [paths[place] for place in order], order
    paths, order = cast(tuple[list[str], list[int]], found)
    first, last = bisect_left(paths, path), bisect_right(paths, path)
    return order[first:last] + order[bisect_left(paths, f"{path}/", last) : bisect_left(paths, f"{path}0", last)]


def find_rows_at(changes: Changes, places: Sequence[int]) -> list[int]:
    """Indexes of the rows at some of the places, ascending; found once a group and kept with it."""
    name = "rows by place"
    found = changes.views.get(name)
    if found is None:
        order = sorted(range(len(changes.path)), key=changes.path.__getitem__)
        found = changes.views[name] = sorted(changes.path), order
    numbers, order = cast(tuple[list[int], list[int]], found)
    rows: list[int] = []
    for place in places:
        rows += order[bisect_left(numbers, place) : bisect_right(numbers, place)]
    return rows if len(places) == 1 else sorted(rows)


def _is_told(type_: int) -> bool:
    return type_ not in HIDDEN_TYPES


def _narrow(rows: list[int] | None, column: list[Any], accept: Callable[[Any], object]) -> list[int]:
    if rows is None:
        return list(compress(range(len(column)), map(accept, column)))
    return [row for row in rows if accept(column[row])]


def _find_all(column: list[str], wanted: str) -> list[int]:
    """Indexes of `wanted`, at the speed of list.index."""
    found: list[int] = []
    at = -1
    try:
        while True:
            at = column.index(wanted, at + 1)
            found.append(at)
    except ValueError:
        return found
