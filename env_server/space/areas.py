"""Which of many areas hold a position, without a look at all of them.

On each axis the coordinates are cut into strips; of each strip it is known which areas reach into it, as bits of one
number. What the two strips of a position share are few areas, which are asked.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from env_server.model.spaces import Area, Disc, NodeSet, Position
from env_server.space.cell_tree import Range, Window

_STRIPS_MAX: Final = 64

Contains = Callable[[Area, Position], bool]
_NOWHERE: Final[Sequence[int]] = ()


class FlatAreas:
    """Areas of a space with two coordinates. See `Areas`."""

    def __init__(self, areas: Sequence[Area], windows: Callable[[Area], list[Window]], contains: Contains) -> None:
        """`windows`: rectangles that hold all of an area."""
        self._areas = areas
        self._windows = windows
        self._contains = contains
        self._strips: tuple[_Strips, _Strips] | None = None

    @property
    def looked(self) -> int:
        return 0 if self._strips is None else len(self._areas)

    @property
    def is_ready(self) -> bool:
        return self._strips is not None

    def at(self, position: Position) -> list[int]:
        found = []
        x, y = self._strips or self._cut()
        left = x.at(position[0]) & y.at(position[1])
        while left:
            lowest = left & -left
            left ^= lowest
            number = lowest.bit_length() - 1
            if self._contains(self._areas[number], position):
                found.append(number)
        return found

    def _cut(self) -> tuple["_Strips", "_Strips"]:
        windows = [self._windows(area) for area in self._areas]
        strips = self._strips = (
            _Strips([[window[0] for window in some] for some in windows]),
            _Strips([[window[1] for window in some] for some in windows]),
        )
        return strips


class Covered(NamedTuple):
    """The nodes of a disc, and what was looked at to find them."""

    nodes: Sequence[int]
    looked: int


class NodeAreas:
    """Areas of a graph. What a disc covers is found by a walk, once for as long as it is declared. See `Areas`."""

    def __init__(
        self, areas: Sequence[Area], cover: Callable[[Disc], Covered], discs: dict[Disc, Covered], looked: int = 0
    ) -> None:
        """`discs`: what some of them are known to cover, of which `looked` was looked at just now."""
        self._areas = areas
        self._cover = cover
        self.discs = discs
        self.looked = looked
        self._there: Mapping[float, Sequence[int]] | None = None

    @property
    def is_ready(self) -> bool:
        return self._there is not None

    def at(self, position: Position) -> Sequence[int]:
        there = self._there
        if there is None:
            there = self._there = self._find()
        return there.get(position[0], _NOWHERE)

    def _find(self) -> Mapping[float, Sequence[int]]:
        there: defaultdict[float, list[int]] = defaultdict(list)
        for number, area in enumerate(self._areas):
            nodes = self._nodes(area)
            self.looked += len(nodes)
            for node in nodes:
                there[node].append(number)
        there.default_factory = None
        return there

    def _nodes(self, area: Area) -> Sequence[int] | frozenset[int]:
        if isinstance(area, NodeSet):
            return area.nodes
        assert isinstance(area, Disc), "a graph accepts no boxes"
        covered = self.discs.get(area)
        if covered is None:
            covered = self.discs[area] = self._cover(area)
            self.looked += covered.looked
        return covered.nodes


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
