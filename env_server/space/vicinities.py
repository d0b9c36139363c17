"""Everybody's neighbours within one radius: entries in blocks as wide as that, so that all are in blocks next to it.

An index that takes any radius looks through leaves that are larger or smaller than it wants; where everybody asks the
same, blocks made for the question cost half of that, and a tenth to fill.
"""

from collections.abc import Callable
from itertools import product
from typing import Final

from env_server.model.errors import LimitExceeded
from env_server.model.ports import Near
from env_server.model.spaces import Position
from env_server.space.leaves import Spots
from env_server.space.spot_tree import Lens
from env_server.space.surroundings import Surroundings

_SLACK: Final = 1.0 + 2.0**-20
"""Blocks are so much wider, for what is lost in rounding."""
_CELLS: Final = 2
"""A block of a grid is no narrower: it would hardly hold anybody."""
_BLOCKS_MAX: Final = 1 << 40
"""On an axis."""

Block = tuple[int, int]


class BlockVicinities:
    """See `Vicinities`. For shapes whose distances are at least those of each axis."""

    def __init__(
        self,
        radius: float,
        around_x: Surroundings,
        around_y: Surroundings,
        lens: Callable[[Position], Lens],
        looks_max: int,
    ) -> None:
        self._radius = radius
        self._x, self._y = _Blocks(around_x, radius), _Blocks(around_y, radius)
        self._lens = lens
        self._looks_max = looks_max
        self._inside: dict[Block, Spots] = {}
        self._near: dict[Block, Spots] = {}
        self.looked = 0

    def put(self, key: str, position: Position) -> None:
        self._near.clear()
        block = self._block(position)
        inside = self._inside.get(block)
        if inside is None:
            inside = self._inside[block] = Spots(len(position))
        inside.append(position, key)

    def near(self, position: Position) -> list[Near]:
        block = self._block(position)
        near = self._near.get(block)
        if near is None:
            near = self._near[block] = self._gather(block)
        self.looked = len(near)
        if self.looked > self._looks_max:
            raise LimitExceeded("space_looks_max", self._looks_max, self.looked)
        keys = near.crowds  # each crowd is one key
        found = [(distance, keys[row]) for distance, row in self._lens(position).sift(near, self._radius)]
        found.sort()
        return found  # type: ignore[return-value]

    def _gather(self, block: Block) -> Spots:
        near = Spots(2)
        for around in product(self._x.around(block[0]), self._y.around(block[1])):
            inside = self._inside.get(around)
            if inside is not None:
                near.extend(inside)
        return near

    def _block(self, position: Position) -> Block:
        return self._x.find(position[0]), self._y.find(position[1])


class _Blocks:
    """An axis in blocks of one width, at least that of a radius."""

    def __init__(self, axis: Surroundings, radius: float) -> None:
        extent = axis.high - axis.low + axis.step
        width = max((radius + axis.rounding) * _SLACK, _CELLS * axis.step)
        self.count = max(1, min(int(extent / width), _BLOCKS_MAX))
        self._low = axis.low
        self._per_unit = self.count / extent
        self._is_closed = axis.is_closed

    def find(self, value: float) -> int:
        """The block of a coordinate."""
        return min(int((value - self._low) * self._per_unit), self.count - 1)

    def around(self, block: int) -> set[int]:
        """The block and those next to it."""
        near = range(block - 1, block + 2)
        if self._is_closed:
            return {one % self.count for one in near}
        return {one for one in near if 0 <= one < self.count}
