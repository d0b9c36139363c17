"""Which watches a group may concern, found from the group: a watch that cannot match costs nothing.

Watches stand at the environment that all their matches equal or lie below. There, a watch that accepts only one key,
one region, certain types or one actor is found by these values; any other is found by every group that touches the
environment. A watch found here still selects its rows; a watch not found here matches none.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, TypeVar

from env_server.events.alternatives import AnyMatcher
from env_server.events.filters import ACTORS, REGIONS, TYPES, find_regions, find_values
from env_server.model.changes import Changes
from env_server.model.names import ROOT

_KNOWN_PATHS_MAX = 16_384
_KEYS = "keys"


class Routed(Protocol):
    """What the index holds."""

    @property
    def number(self) -> int:
        """Unique; the order of those found."""

    @property
    def matcher(self) -> AnyMatcher:
        """Never changes."""


W = TypeVar("W", bound=Routed)


class _Stand(Generic[W]):
    """The watches at one environment. Dicts serve as ordered sets: the order must not depend on addresses."""

    __slots__ = ("by_value", "loose")

    def __init__(self) -> None:
        self.loose: dict[W, None] = {}
        self.by_value: dict[str, dict[Hashable, dict[W, None]]] = {}
        """Column, value, watches."""

    def add(self, watch: W) -> None:
        column, values = _choose(watch.matcher)
        if not column:
            self.loose[watch] = None
            return
        index = self.by_value.setdefault(column, {})
        for value in values:
            index.setdefault(value, {})[watch] = None

    def remove(self, watch: W) -> None:
        column, values = _choose(watch.matcher)
        if not column:
            self.loose.pop(watch, None)
            return
        index = self.by_value.get(column, {})
        for value in values:
            watches = index.get(value, {})
            watches.pop(watch, None)
            if not watches:
                index.pop(value, None)
        if not index:
            self.by_value.pop(column, None)

    def find(self, changes: Changes) -> Iterator[W]:
        yield from self.loose
        for column, index in self.by_value.items():
            if column == REGIONS:
                for value in index.keys() & find_regions(changes):
                    yield from index[value]
                continue
            cells = getattr(changes, column)
            if index.keys().isdisjoint(cells):
                continue
            # The distinct keys are not kept with the group, as those of other columns are: they would weigh as much
            # as the group.
            present = frozenset(cells) if column == _KEYS else find_values(changes, column)
            for value in index.keys() & present:
                yield from index[value]


class Routes(Generic[W]):
    """The index. Adding, removing and finding take time in the depth of paths and in what is found."""

    def __init__(self) -> None:
        self._stands: dict[str, _Stand[W]] = {}
        self._above: dict[str, tuple[_Stand[W], ...]] = {}
        """Stands at and above a path that groups touched; forgotten when a stand comes or goes."""

    def add(self, watch: W) -> None:
        """Finds it from now on. Without effect when it is there."""
        root = watch.matcher.root
        stand = self._stands.get(root)
        if stand is None:
            stand = self._stands[root] = _Stand()
            self._above.clear()
        stand.add(watch)

    def remove(self, watch: W) -> None:
        """Finds it no more. Without effect when it is absent."""
        root = watch.matcher.root
        stand = self._stands.get(root)
        if stand is None:
            return
        stand.remove(watch)
        if not stand.loose and not stand.by_value:
            del self._stands[root]
            self._above.clear()

    def find(self, changes: Changes) -> list[W]:
        """Those that may match a row, each once, in the order of their numbers."""
        stands: dict[_Stand[W], None] = {}
        above = self._above
        for place in changes.places:
            known = above.get(place.path)
            if known is None:
                known = self._find_above(place.path)
            for stand in known:
                stands[stand] = None
        if not stands:
            return []
        found = {watch: None for stand in stands for watch in stand.find(changes)}
        return sorted(found, key=_number)

    def _find_above(self, path: str) -> tuple[_Stand[W], ...]:
        if len(self._above) >= _KNOWN_PATHS_MAX:
            self._above.clear()
        paths = [ROOT]
        if path != ROOT:
            cuts = [at for at, character in enumerate(path) if character == "/" and at] + [len(path)]
            paths += [path[:cut] for cut in cuts]
        found = tuple(self._stands[above] for above in paths if above in self._stands)
        self._above[path] = found
        return found


def _choose(matcher: AnyMatcher) -> tuple[str, tuple[Hashable, ...]]:
    """The column that narrows a watch most, and its values; "" = none does."""
    if matcher.key:
        return _KEYS, (matcher.key,)
    if matcher.region:
        return REGIONS, (matcher.region,)
    if matcher.actor:
        return ACTORS, (matcher.actor,)
    if matcher.types:
        return TYPES, tuple(sorted(matcher.types))
    return "", ()


def _number(watch: Routed) -> int:
    return watch.number
