"""Tables of neighbours: a row for each entry, found at once or, where they are many, in slices.

Those in slices are found in an index of their own, which is made of the entries of the moment in which they were asked
for, so the world goes on meanwhile.
"""

from collections.abc import Callable, Iterator
from typing import Final

from env_server.model.entries import Entry
from env_server.model.errors import LimitExceeded
from env_server.model.frames import NeighbourTable
from env_server.model.limits import Limits
from env_server.model.ordering import in_order
from env_server.model.ports import Near, SpaceIndex
from env_server.model.spaces import Position
from env_server.state_tree.reads.listings import Slices
from env_server.state_tree.reads.weights import weigh_text

ROWS_AT_ONCE_MAX: Final = 128
"""Whose neighbours are found in one step."""
PUT_SLICE: Final = 1024
LOOKS_SLICE: Final = 8192
_ROW_BYTES: Final = 6
"""Of a row beside its key and its position."""
NEIGHBOUR_BYTES: Final = 3

Find = Callable[[SpaceIndex, Position], list[Near]]


class Table:
    """A table of neighbours that grows row by row."""

    def __init__(self, entries: dict[str, Entry], index: SpaceIndex, find: Find, count: int, limits: Limits) -> None:
        """`count`: neighbours of each at most; 0 = any number."""
        self._entries = entries
        self._index = index
        self._find = find
        self._count = count
        self._limits = limits
        self._found: list[list[str]] = []
        self._neighbours = 0
        self._bytes = 0

    def ask(self, key: str, position: Position) -> None:
        """Adds the row of an entry.

        Raises:
            LimitExceeded: as `check_weight`, and `space_looks_max`.
        """
        others = [other for _, other in self._find(self._index, position) if other != key]
        if self._count:  # one more was looked for, since the entry itself may be among the nearest
            del others[self._count :]
        self._found.append(others)
        self._neighbours += len(others)
        self._bytes += weigh_text(key)
        size_bytes = self._bytes + NEIGHBOUR_BYTES * self._neighbours
        check_weight(len(self._found), self._index.dimensions, size_bytes, self._limits)

    def told(self, keys: list[str], revision: int) -> NeighbourTable:
        """The whole of it."""
        rows = {key: row for row, key in enumerate(keys)}
        neighbours = [rows.setdefault(other, len(rows)) for others in self._found for other in others]
        names = list(rows)
        positions = [self._entries[name].position or () for name in names]
        counts = list(map(len, self._found))
        return NeighbourTable(keys, counts, neighbours, names[len(keys) :], positions, revision)


def find_in_slices(
    index: SpaceIndex,
    find: Find,
    entries: dict[str, Entry],
    asked: dict[str, Position],
    count: int,
    limits: Limits,
    revision: int,
) -> Slices:
    """The steps of a table: all entries, which are put into an empty index, and whose neighbours are wanted.

    `asked` empty = of all that are somewhere; `count`: neighbours of each at most; 0 = any number.

    Raises (while it runs):
        LimitExceeded: as `check_weight`, `space_looks_max`, and `neighbours_looks_max`.
    """
    keys: list[str] = []
    for place, (key, entry) in enumerate(entries.items(), 1):
        if entry.position is not None:
            index.put(key, entry.position)
            keys.append(key)
        if place % PUT_SLICE == 0:
            yield
    order: Iterator[str | None] = iter(asked) if asked else in_order(keys)
    table = Table(entries, index, find, count, limits)
    rows: list[str] = []
    looked = looked_in_all = 0
    for name in order:
        if name is None:
            yield
            continue
        rows.append(name)
        table.ask(name, entries[name].position or ())
        looked_in_all += index.looked
        if looked_in_all > limits.neighbours_looks_max:
            raise LimitExceeded("neighbours_looks_max", limits.neighbours_looks_max, looked_in_all)
        looked += max(index.looked, LOOKS_SLICE // ROWS_AT_ONCE_MAX)
        if looked >= LOOKS_SLICE:
            looked = 0
            yield
    while index.let_go(PUT_SLICE):
        yield
    return table.told(rows, revision)


def check_weight(rows: int, dimensions: int, size_bytes: int, limits: Limits) -> None:
    """Lets a table be of so many rows, with so many bytes of keys and neighbours.

    Raises:
        LimitExceeded: message_bytes_max: no message would hold it.
    """
    weight = rows * (_ROW_BYTES + 8 * dimensions) + size_bytes
    if weight > limits.message_bytes_max:
        raise LimitExceeded("message_bytes_max", limits.message_bytes_max, weight)
