"""Which of many areas hold a position, without a look at all of them.

On each axis the coordinates are cut into strips; of each strip it is known which areas reach into it, as bits of one
number. What the two strips of a position share are few areas, which are asked.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from env_server.model.spaces import Area, Position
from env_server.space.cell_tree import Range, Window

_STRIPS_MAX: Final = 64

Contains = Callable[[Area, Position], bool]


class FlatAreas:
    """Areas of a space with two coordinates. See `Areas`."""

    def __init__(self, areas: Sequence[Area], windows: Sequence[list[Window]], contains: Contains) -> None:
        """`windows`: for each area, rectangles that hold all of it."""
        self._areas = areas
        self._contains = contains
        self._x = _Strips([[window[0] for window in some] for some in windows])
        self._y = _Strips([[window[1] for window in some] for some in windows])

    def at(self, position: Position) -> list[int]:
        found = []
        left = self._x.at(position[0]) & self._y.at(position[1])
        while left:
            lowest = left & -left
            left ^= lowest
            number = lowest.bit_length() - 1
            if self._contains(self._areas[number], position):
                found.append(number)
        return found


class NodeAreas:
    """Areas of a graph, found for each node when it is first asked about. See `Areas`."""

    def __init__(self, areas: Sequence[Area], contains: Contains) -> None:
        self._areas = areas
        self._contains = contains
        self._found: dict[float, list[int]] = {}

    def at(self, position: Position) -> list[int]:
        found = self._found.get(position[0])
        if found is None:
            found = [number for number, area in enumerate(self._areas) if self._contains(area, position)]
            self._found[position[0]] = found
        return found


class _Strips:
    """An axis, cut where the ranges of areas begin."""

    def __init__(self, ranges: Sequence[list[Range]]) -> None:
        starts = sorted({start for some in ranges for start, _ in some})
        self._cuts = starts[:: max(1, -(-len(starts) // _STRIPS_MAX))]
        reaching: list[list[int]] = [[] for _ in range(len(self._cuts) + 1)]
        for number, some in enumerate(ranges):
            for start, end in some:
                for strip in range(bisect_right(self._cuts, start), bisect_right(self._cuts, end) + 1):
                    reaching[strip].append(number)
        self._bits = [sum(1 << number for number in set(numbers)) for numbers in reaching]

    def at(self, coordinate: float) -> int:
        """A bit for each area that may reach there."""
        return self._bits[bisect_right(self._cuts, coordinate)]
