"""Tables of neighbours in columns: of many entries at once, by numbers instead of keys.

Numbers are places in the order of keys, by which the equally near are told.
"""

from bisect import bisect_left
from collections.abc import Generator, Sequence
from itertools import chain, islice
from math import inf, pi, sqrt
from typing import Final

from env_server.model.entries import Entry
from env_server.model.errors import LimitExceeded
from env_server.model.frames import NeighbourTable
from env_server.model.limits import Limits
from env_server.model.ordering import in_order
from env_server.model.ports import SpaceIndex, Vicinities
from env_server.model.spaces import Position
from env_server.state_tree.reads.listings import Slices
from env_server.state_tree.reads.neighbour_tables import (
    LOOKS_SLICE,
    NEIGHBOUR_BYTES,
    PUT_SLICE,
    ROWS_AT_ONCE_MAX,
    Find,
    check_weight,
)
from env_server.state_tree.reads.weights import weigh_text

_SCAN_SLICE: Final = 8192
_SPARE: Final = 2.0
"""So many times the wanted lie within the first radius, where entries are evenly spread."""
_LOOKS_A_NEIGHBOUR: Final = 100
"""Where more is to be looked at for each of the nearest, entries lie so unevenly that an index finds them sooner."""


def find_within(
    vicinities: Vicinities,
    dimensions: int,
    entries: dict[str, Entry],
    asked: dict[str, Position],
    limits: Limits,
    revision: int,
) -> Slices:
    """The steps of a table of neighbours within one radius; all entries are put into these empty vicinities.

    `asked` empty = of all that are somewhere.

    Raises (while it runs):
        LimitExceeded: as `check_weight`, `space_looks_max`, and `neighbours_looks_max`.
    """
    table = yield from _sort(entries, asked, dimensions, limits)
    yield from _fill(vicinities, table.places)
    while left := table.wanted[len(table.counts) :]:
        table.add(*vicinities.find(left))
        _check_looked(vicinities.looked, limits)
        yield
    return table.told(asked, revision)


def find_nearest(
    index: SpaceIndex,
    find: Find,
    count: int,
    entries: dict[str, Entry],
    asked: dict[str, Position],
    limits: Limits,
    revision: int,
) -> Slices:
    """The steps of a table of the `count` nearest of each; `find` of an empty index with vicinities tells one more.

    They are looked for within a radius that holds enough of most; of who has too few, within twice that, and so on. As
    soon as that looks at too much, those who are left are put to the index.

    Raises (while it runs): as `find_within`.
    """
    table = yield from _sort(entries, asked, index.dimensions, limits)
    check_weight(len(table.wanted), index.dimensions, NEIGHBOUR_BYTES * len(table.wanted) * table.most(count), limits)
    radius = yield from _guess_radius(table.places, count)
    index.looks_max = min(limits.space_looks_max, _LOOKS_A_NEIGHBOUR * (count + 1))
    found: dict[int, list[int]] = {}
    looked, left = 0, table.wanted
    while left:
        vicinities = index.vicinities(radius)
        assert vicinities is not None
        yield from _fill(vicinities, table.places)
        try:
            left = yield from _find_enough(vicinities, left, table.most(count), found)
        except LimitExceeded:
            break
        finally:
            looked += vicinities.looked
        _check_looked(looked, limits)
        radius = radius * 2 or inf
    if left:
        index.looks_max = limits.space_looks_max
        yield from _find_in_index(index, find, table, count, found, looked, limits)
    for some in range(0, len(table.wanted), _SCAN_SLICE):
        rows = [found[number] for number in table.wanted[some : some + _SCAN_SLICE]]
        table.add(list(map(len, rows)), list(chain.from_iterable(rows)))
        yield
    return table.told(asked, revision)


class _Table:
    """A table that grows by columns of rows."""

    def __init__(
        self, names: list[str], places: list[Position], wanted: Sequence[int], dimensions: int, limits: Limits
    ):
        """`names` and `places` of all by their numbers; `wanted`: whose rows it has."""
        self.names, self.places, self.wanted = names, places, wanted
        self.counts: list[int] = []
        self._neighbours: list[int] = []
        self._dimensions = dimensions
        self._limits = limits
        self._bytes = 0

    def most(self, count: int) -> int:
        """How many have a neighbour if each has at most so many."""
        return min(count, len(self.names) - 1)

    def add(self, counts: list[int], neighbours: list[int]) -> None:
        """The rows of the next that are wanted: how many neighbours each has, and the numbers of these.

        Raises:
            LimitExceeded: as `check_weight`.
        """
        told = self.wanted[len(self.counts) : len(self.counts) + len(counts)]
        self.counts += counts
        self._neighbours += neighbours
        self._bytes += sum([weigh_text(self.names[number]) for number in told])
        size_bytes = self._bytes + NEIGHBOUR_BYTES * len(self._neighbours)
        check_weight(len(self.counts), self._dimensions, size_bytes, self._limits)

    def told(self, asked: dict[str, Position], revision: int) -> NeighbourTable:
        """The whole of it."""
        if not asked:
            return NeighbourTable(self.names, self.counts, self._neighbours, [], self.places, revision)
        rows = {number: row for row, number in enumerate(self.wanted)}
        neighbours = [rows.setdefault(number, len(rows)) for number in self._neighbours]
        others = [self.names[number] for number in islice(rows, len(asked), None)]
        return NeighbourTable(
            list(asked), self.counts, neighbours, others, [self.places[number] for number in rows], revision
        )


def _sort(
    entries: dict[str, Entry], asked: dict[str, Position], dimensions: int, limits: Limits
) -> Generator[None, None, _Table]:
    """Gives all that are somewhere their numbers."""
    keys = []
    for place, (key, entry) in enumerate(entries.items(), 1):
        if entry[6] is not None:
            keys.append(key)
        if place % _SCAN_SLICE == 0:
            yield
    names: list[str] = []
    places: list[Position] = []
    for name in in_order(keys):
        if name is None:
            yield
        else:
            names.append(name)
    for start in range(0, len(names), _SCAN_SLICE):
        places += [entries[name][6] or () for name in names[start : start + _SCAN_SLICE]]
        yield
    wanted: Sequence[int] = [bisect_left(names, key) for key in asked] if asked else range(len(names))
    return _Table(names, places, wanted, dimensions, limits)


def _fill(vicinities: Vicinities, places: list[Position]) -> Generator[None, None, None]:
    for start in range(0, len(places), _SCAN_SLICE):
        vicinities.put(places[start : start + _SCAN_SLICE])
        yield


def _guess_radius(places: list[Position], count: int) -> Generator[None, None, float]:
    """Within which most have so many neighbours, if entries are spread evenly over the rectangle that they cover."""
    if not places:
        return 0.0
    west = south = inf
    east = north = -inf
    for start in range(0, len(places), _SCAN_SLICE):
        xs, ys = zip(*places[start : start + _SCAN_SLICE], strict=True)
        west, east, south, north = min(west, *xs), max(east, *xs), min(south, *ys), max(north, *ys)
        yield
    share = min(1.0, _SPARE * (count + 1) / len(places))
    width, height = east - west, north - south
    # The larger of a disc of that area and of a part of a line, which the rectangle may be nearly.
    return max(share * max(width, height) / 2, sqrt(width / pi) * sqrt(share * height))


def _find_enough(
    vicinities: Vicinities, asked: Sequence[int], enough: int, found: dict[int, list[int]]
) -> Generator[None, None, list[int]]:
    """Finds those who have enough near them, and cuts off what is more; returns who has not."""
    few = []
    done = 0
    while done < len(asked):
        counts, neighbours = vicinities.find(asked[done:])
        start = 0
        for number, count in zip(asked[done:], counts, strict=False):
            if count >= enough:
                found[number] = neighbours[start : start + enough]
            else:
                few.append(number)
            start += count
        done += len(counts)
        yield
    return few


def _find_in_index(
    index: SpaceIndex,
    find: Find,
    table: _Table,
    count: int,
    found: dict[int, list[int]],
    looked_in_all: int,
    limits: Limits,
) -> Generator[None, None, None]:
    """Finds those who were not found, one by one, and lets go of the index."""
    for number, (name, position) in enumerate(zip(table.names, table.places, strict=True), 1):
        index.put(name, position)
        if number % PUT_SLICE == 0:
            yield
    looked = 0
    for number in table.wanted:
        if number not in found:
            name = table.names[number]
            others = [other for _, other in find(index, table.places[number]) if other != name]
            found[number] = [bisect_left(table.names, other) for other in others[:count]]
            looked_in_all += index.looked
            _check_looked(looked_in_all, limits)
            looked += max(index.looked, LOOKS_SLICE // ROWS_AT_ONCE_MAX)
            if looked >= LOOKS_SLICE:
                looked = 0
                yield
    while index.let_go(PUT_SLICE):
        yield


def _check_looked(looked: int, limits: Limits) -> None:
    """Raises LimitExceeded: neighbours_looks_max."""
    if looked > limits.neighbours_looks_max:
        raise LimitExceeded("neighbours_looks_max", limits.neighbours_looks_max, looked)
