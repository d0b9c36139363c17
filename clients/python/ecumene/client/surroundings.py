"""What a space answers: who is near, how far it is, and everybody's neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple, overload

from env_api.v1 import queries_pb2


class Near(NamedTuple):
    """An entry that is near."""

    key: str
    distance: float | None
    """None for those in a box."""
    position: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Nearby(Sequence[Near]):
    """Entries that are near, the nearest first, of equal distance in key order; those in a box in key order."""

    keys: tuple[str, ...]
    distances: tuple[float, ...]
    """Empty for a box."""
    positions: tuple[tuple[float, ...], ...]
    more: bool
    """Others are near, too, beyond the limit."""
    revision: int

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Near]:
        return (self[row] for row in range(len(self.keys)))

    @overload
    def __getitem__(self, row: int) -> Near: ...

    @overload
    def __getitem__(self, row: slice) -> list[Near]: ...

    def __getitem__(self, row: int | slice) -> Near | list[Near]:
        if isinstance(row, slice):
            return [self[one] for one in range(len(self.keys))[row]]
        return Near(self.keys[row], self.distances[row] if self.distances else None, self.positions[row])


@dataclass(frozen=True, slots=True)
class Way:
    """How far it is from one place to another."""

    distance: float
    nodes: tuple[int, ...]
    """Graphs: the nodes of a shortest way, both ends included; of several the first in order."""
    revision: int


class Neighbours:
    """Everybody's neighbours at one revision, in columns; `of` and `positions` are views made when touched."""

    def __init__(self, message: queries_pb2.NeighbourTable) -> None:
        self._message = message

    def __repr__(self) -> str:
        return f"<Neighbours of {len(self)} entries at {self.revision}>"

    def __len__(self) -> int:
        return len(self._message.keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys)

    @property
    def revision(self) -> int:
        """The revision at which they were so."""
        return self._message.revision

    @cached_property
    def keys(self) -> list[str]:
        """Those whose neighbours are told."""
        return list(self._message.keys)

    @cached_property
    def others(self) -> list[str]:
        """Entries that are neighbours but were not asked for: rows beyond those of `keys`."""
        return list(self._message.others)

    @cached_property
    def counts(self) -> list[int]:
        """How many neighbours the entry of each row has."""
        return list(self._message.counts)

    @cached_property
    def rows(self) -> list[int]:
        """The neighbours of the entry in row i are the next `counts[i]` of these: rows of `keys`, then of `others`."""
        return list(self._message.neighbours)

    @cached_property
    def coordinates(self) -> list[float]:
        """Of `keys`, then of `others`: one after the other, as many a row as the space has dimensions."""
        return list(self._message.coordinates)

    @cached_property
    def positions(self) -> list[tuple[float, ...]]:
        """Of `keys`, then of `others`."""
        return list(split_positions(self.coordinates, len(self.keys) + len(self.others)))

    def of(self, key: str) -> list[str]:
        """Keys of an entry's neighbours.

        Raises:
            KeyError: it was not asked for, or is nowhere.
        """
        row = self._row_of[key]
        start, end = self._starts[row], self._starts[row + 1]
        keys, others = self.keys, self.others
        return [keys[i] if i < len(keys) else others[i - len(keys)] for i in self.rows[start:end]]

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.keys)}

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(self.counts, initial=0))


def read_nearby(message: queries_pb2.NearbyPage) -> Nearby:
    """Who is near."""
    positions = tuple(split_positions(message.coordinates, len(message.keys)))
    return Nearby(tuple(message.keys), tuple(message.distances), positions, message.more, message.revision)


def read_way(message: queries_pb2.DistanceResult) -> Way:
    """How far it is."""
    return Way(message.distance, tuple(message.way), message.revision)


def split_positions(coordinates: Sequence[float], count: int) -> Iterator[tuple[float, ...]]:
    """Positions of coordinates that stand one after the other."""
    columns = len(coordinates) // count if count else 1
    return zip(*[iter(coordinates)] * columns, strict=True)
