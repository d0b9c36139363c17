"""Grids: cells that are next to each other across edges, across corners too, or hexagons."""

from abc import abstractmethod
from collections.abc import Callable

from env_server.model.limits import Limits
from env_server.model.ports import Near, Vicinities
from env_server.model.spaces import Box, Grid, Neighbourhood, Position
from env_server.space.cell_tree import Window
from env_server.space.checking import check_radius, check_whole, finite, refuse_field
from env_server.space.flat_index import FlatIndex, Interval
from env_server.space.leaves import Seen, Spots
from env_server.space.spot_tree import SpotTree
from env_server.space.surroundings import FlatLens, Surroundings

_SIDE_MAX = 2**32 - 1


class GridIndex(FlatIndex):
    """Entries in cells. An empty cell takes no memory, so a grid may be as large as its numbers."""

    def __init__(self, grid: Grid, limits: Limits) -> None:
        """Raises InvalidRequest, INVALID_FIELD: no sides, or a torus of hexagons with an odd number of rows."""
        for name, value, least in (
            ("width", grid.width, 1),
            ("height", grid.height, 1),
            ("capacity", grid.capacity, 0),
        ):
            if type(value) is not int or not least <= value <= _SIDE_MAX:
                raise refuse_field(f"space.grid.{name}", f"{value} is no number from {least} to {_SIDE_MAX}")
        if grid.neighbourhood == Neighbourhood.HEX and grid.torus and grid.height % 2:
            raise refuse_field(
                "space.grid.height",
                f"a torus of hexagons has an even number of rows; with {grid.height} the first and the last would both "
                "be shifted alike, and cells be next to others that are not next to them",
            )
        self._grid = grid
        bits = (max(grid.width, grid.height) - 1).bit_length()
        # A part of n units holds the columns from its first to n - 1 later.
        tree = SpotTree((0.0, 0.0), per_unit=1.0, bits=bits, margins=(0.0, -1.0), looks_max=limits.space_looks_max)
        self._limits = limits
        super().__init__(tree, capacity=grid.capacity)
        self._lens_of = _LENSES[grid.neighbourhood]
        # Of hexagons half a cell is free of charge.
        free = 0.5 if grid.neighbourhood == Neighbourhood.HEX else 0.0
        self._around_x = Surroundings((0.0, grid.width - 1.0), free, closed=grid.torus, step=1.0)
        self._around_y = Surroundings((0.0, grid.height - 1.0), 0.0, closed=grid.torus, step=1.0)

    def apart(self) -> "GridIndex":
        return GridIndex(self._grid, self._limits)

    def check(self, position: Position) -> Position:
        if len(position) == 2:  # as most are; whatever is wrong is told below
            x, y = position
            if type(x) is float and type(y) is float and self._is_cell(x, y):
                return x + 0.0, y + 0.0
        numbers = finite(position, 2)
        check_whole(numbers[0], self._grid.width, "column")
        check_whole(numbers[1], self._grid.height, "row")
        return numbers

    def _is_cell(self, x: float, y: float) -> bool:
        grid = self._grid
        return 0.0 <= x < grid.width and 0.0 <= y < grid.height and x.is_integer() and y.is_integer()

    def distance(self, one: Position, other: Position, *, hops: bool = False) -> float:
        return self._lens(one).measure(other)

    def adjacent(self, position: Position) -> list[Near]:
        return self.within(position, 1.0)

    def vicinities(self, radius: float) -> Vicinities:
        check_radius(radius)
        from env_server.space.cell_lists import SIFT_GRID, CellLists

        kind = self._grid.neighbourhood
        shift = 0.5 if kind == Neighbourhood.HEX else 0.0
        return CellLists(radius, self._around_x, self._around_y, SIFT_GRID[kind], self.looks_max, shift)

    def _lens(self, position: Position) -> "_GridLens":
        return self._lens_of(position, self._around_x, self._around_y)

    def _check_box(self, box: Box) -> None:
        self.check(box.low)
        self.check(box.high)
        if not self._grid.torus and (box.low[0] > box.high[0] or box.low[1] > box.high[1]):
            raise refuse_field("box", "a lower bound is greater than the upper one")

    def _intervals(self, box: Box) -> tuple[Interval, Interval]:
        return (
            Interval(box.low[0], box.high[0], (0.0, self._grid.width - 1), closed=False),
            Interval(box.low[1], box.high[1], (0.0, self._grid.height - 1), closed=False),
        )


class _GridLens(FlatLens):
    """Distances in steps."""

    def __init__(self, position: Position, around_x: Surroundings, around_y: Surroundings) -> None:
        super().__init__(position, around_x, around_y)
        self.width, self.height = around_x.length, around_y.length

    def measure(self, spot: Position) -> float:
        x, y = abs(spot[0] - self.x), abs(spot[1] - self.y)
        return self.join(min(x, self.width - x), min(y, self.height - y))

    @abstractmethod
    def join(self, gap_x: float, gap_y: float) -> float:
        """How far away something is that is so far away on each axis."""

    def _sift_across(self, spots: Spots, bound: float) -> Seen:
        measure = self.measure
        return [(distance, row) for x, y, row in spots.rows() if (distance := measure((x, y))) <= bound]

    def _sift_window(self, spots: Spots, bound: float, window: Window) -> Seen:
        measure = self.measure
        (west, east), (south, north) = window
        return [
            (distance, row)
            for x, y, row in spots.rows()
            if west <= x <= east and south <= y <= north and (distance := measure((x, y))) <= bound
        ]


class _MooreLens(_GridLens):
    def estimate(self, spots: Spots) -> Seen:
        # On a torus this may be the long way round: rather too far than too near.
        here_x, here_y = self.x, self.y
        return [
            (gap_x if (gap_x := abs(x - here_x)) > (gap_y := abs(y - here_y)) else gap_y, row)
            for x, y, row in spots.rows()
        ]

    def join(self, gap_x: float, gap_y: float) -> float:
        return gap_x if gap_x > gap_y else gap_y

    def _sift_window(self, spots: Spots, bound: float, window: Window) -> Seen:
        """The window is the neighbourhood itself."""
        here_x, here_y = self.x, self.y
        (west, east), (south, north) = window
        return [
            (gap_x if (gap_x := abs(x - here_x)) > (gap_y := abs(y - here_y)) else gap_y, row)
            for x, y, row in spots.rows()
            if west <= x <= east and south <= y <= north
        ]


class _VonNeumannLens(_GridLens):
    def join(self, gap_x: float, gap_y: float) -> float:
        return gap_x + gap_y


class _HexLens(_GridLens):
    """A step to the next row is also half a step along it, so that much of a difference in columns is free.

    Columns are counted in the rows' own shifted places: half a cell to the right where the row is odd.
    """

    def measure(self, spot: Position) -> float:
        x = abs(spot[0] + spot[1] % 2 / 2 - self.x - self.y % 2 / 2)
        y = abs(spot[1] - self.y)
        x, y = min(x, self.width - x), min(y, self.height - y)
        return max(y, x + y / 2)

    def join(self, gap_x: float, gap_y: float) -> float:
        # The two rows may be shifted by half a cell against each other.
        return max(gap_y, gap_x - 0.5 + gap_y / 2)


_LENSES: dict[Neighbourhood, Callable[[Position, Surroundings, Surroundings], _GridLens]] = {
    Neighbourhood.MOORE: _MooreLens,
    Neighbourhood.VON_NEUMANN: _VonNeumannLens,
    Neighbourhood.HEX: _HexLens,
}
