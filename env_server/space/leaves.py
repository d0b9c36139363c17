"""The leaves of a spot tree: a few spots each, in columns.

Columns of bare doubles, since a query looks at all spots of a leaf: tuples and floats all over the memory made it wait.
"""

from array import array
from bisect import bisect_left, insort
from math import inf
from operator import itemgetter
from typing import Any

Spot = tuple[float, ...]
"""A position, perhaps with more about it behind its two coordinates."""
Crowd = str | list[str]
"""Who is at a spot: one key, or several, sorted."""
Seen = list[tuple[float, int]]
"""How far away, and in which row of some spots."""

distance_of = itemgetter(0)


class Spots:
    """Spots in any order: `columns` has an array for each number of a spot, beside `crowds`, who is there."""

    __slots__ = ("columns", "crowds")

    def __init__(self, width: int) -> None:
        self.columns = tuple(array("d") for _ in range(width))
        self.crowds: list[Crowd] = []

    def __len__(self) -> int:
        return len(self.crowds)

    def rows(self) -> "zip[Any]":
        """The two coordinates of each spot, and its row.

        Without who is there: keys lie all over the memory, and most rows are looked at for nothing.
        """
        xs, ys = self.columns[0], self.columns[1]
        return zip(xs, ys, range(len(xs)), strict=True)

    def append(self, spot: Spot, crowd: Crowd) -> None:
        """One more row."""
        self.crowds.append(crowd)
        for column, number in zip(self.columns, spot, strict=True):
            column.append(number)

    def extend(self, others: "Spots") -> None:
        """All rows of others."""
        self.crowds += others.crowds
        for column, numbers in zip(self.columns, others.columns, strict=True):
            column.extend(numbers)


Found = list[tuple[float, int, Spots]]
"""How far away, and in which row of which spots."""


def bound_of(found: Found, count: int) -> float:
    """How far away the last of the first `count` keys is, infinite if there are fewer; `found` goes by distance."""
    keys = 0
    for distance, row, spots in found:
        crowd = spots.crowds[row]
        keys += 1 if isinstance(crowd, str) else len(crowd)
        if keys >= count:
            return distance
    return inf


class Leaf(Spots):
    """Spots that are all different."""

    __slots__ = ("_rows", "at", "east", "north", "parent", "shared", "south", "west")

    def __init__(self, parent: Any, at: int, width: int, low: Spot, high: Spot) -> None:
        """The part `at` of a cell.

        All that lies from `low` on and below `high` belongs here; of what lies about there the tree has to tell.
        """
        super().__init__(width)
        self.parent = parent
        self.at = at
        self.west, self.south = low
        self.east, self.north = high
        #: Spots at which there are several.
        self.shared = 0
        self._rows: dict[Spot, int] = {}

    def put(self, key: str, spot: Spot) -> bool:
        """One more at a spot. Whether it is a new one."""
        row = self._rows.get(spot)
        if row is None:
            self.add(spot, key)
            return True
        crowd = self.crowds[row]
        if isinstance(crowd, list):
            insort(crowd, key)
        else:
            self.crowds[row] = [crowd, key] if crowd < key else [key, crowd]
            self.shared += 1
        return False

    def add(self, spot: Spot, crowd: Crowd) -> None:
        """A new spot."""
        self._rows[spot] = len(self.crowds)
        self.append(spot, crowd)
        if isinstance(crowd, list):
            self.shared += 1

    def drop(self, key: str, spot: Spot) -> bool:
        """One less at a spot, who must be there. Whether it was the last one there."""
        crowd = self.crowds[self._rows[spot]]
        if isinstance(crowd, list):
            del crowd[bisect_left(crowd, key)]
            if len(crowd) == 1:
                self.crowds[self._rows[spot]] = crowd[0]
                self.shared -= 1
            return False
        row = self._rows.pop(spot)
        # The last row takes the place of the one that goes.
        last = tuple([column.pop() for column in self.columns])
        crowd = self.crowds.pop()
        if row < len(self.crowds):
            self.crowds[row] = crowd
            self._rows[last] = row
            for column, number in zip(self.columns, last, strict=True):
                column[row] = number
        return True

    def move(self, before: Spot, spot: Spot) -> bool:
        """Moves who is alone at a spot to one where nobody is; whether that is so."""
        rows = self._rows
        row = rows[before]
        if spot in rows or isinstance(self.crowds[row], list):
            return False
        del rows[before]
        rows[spot] = row
        columns = self.columns
        columns[0][row], columns[1][row] = spot[0], spot[1]
        for place in range(2, len(columns)):
            columns[place][row] = spot[place]
        return True

    def retire(self) -> None:
        """Its spots are in other leaves now, and nothing belongs here."""
        self.west = inf
        self.parent = None
        self.columns, self.crowds, self._rows = (), [], {}

    @property
    def is_retired(self) -> bool:
        """Whether it was made part of others, or has become empty."""
        return self.parent is None

    def crowd(self, spot: Spot) -> Crowd:
        """Who is at a spot; an empty list when nobody is."""
        row = self._rows.get(spot)
        return [] if row is None else self.crowds[row]

    def spots(self) -> list[tuple[Spot, Crowd]]:
        """All of it."""
        return [(spot, self.crowds[row]) for spot, row in self._rows.items()]
