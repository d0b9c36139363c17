"""Everybody's neighbours within one radius: entries in cells as wide as that, so that all are in cells next to it.

An index that takes any radius finds them one by one; where everybody asks the same, whole columns of numbers are
compared at once, for a tenth of that. numpy takes a tenth of a second to load, so this module is imported when needed.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from math import hypot, inf
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from env_server.model.errors import LimitExceeded
from env_server.model.spaces import Neighbourhood, Position
from env_server.space.surroundings import Surroundings

Column = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Sift = Callable[[Column, Column, float], tuple[Numbers, Column]]
"""Of gaps on both axes, which are at most so far apart (their places, ascending), and how far."""

_LOOKS_AT_ONCE_MAX: Final = 32_768
"""What one call looks at, about; the neighbours of one entry are found at once."""
_ROWS_AT_ONCE_MAX: Final = 2048
_SORTED_AT_ONCE_MAX: Final = 65_536
"""Entries that are put into their cells in one go: some milliseconds."""
_SLACK: Final = 1.0 + 2.0**-20
"""Cells are so much wider, for what is lost in rounding."""
_PLACES: Final = 2
"""Of a grid a cell is no narrower: it would hardly hold anybody."""
_CELLS_AN_ENTRY: Final = 8
_CELLS_MAX: Final = 1 << 30
"""On an axis, so that a cell of two axes has a number."""


class CellLists:
    """See `Vicinities`. For shapes whose distances are at least those of each axis."""

    def __init__(
        self,
        radius: float,
        around_x: Surroundings,
        around_y: Surroundings,
        sift: Sift,
        looks_max: int,
        shift: float = 0,
    ) -> None:
        """`shift`: by how much odd rows stand to the right of where their columns say."""
        self._radius = radius
        self._around = around_x, around_y
        self._axes = _Axis(around_x, radius), _Axis(around_y, radius)
        self._sift = sift
        self._looks_max = looks_max
        self.looked = 0
        self._is_grid = around_x.step > 0
        self._shift = shift
        self._xs = self._ys = np.zeros(0)
        self._waiting: list[Position] = []
        #: By cell; of so many entries at a time.
        self._sorted: list[_Sorted] = []
        self._everybody = np.zeros(0, np.int64)

    def put(self, positions: Sequence[Position]) -> None:
        self._waiting += positions
        if len(self._waiting) >= _SORTED_AT_ONCE_MAX:
            self._settle()

    def find(self, asked: Sequence[int]) -> tuple[list[int], list[int]]:
        if self._waiting:
            self._settle()
        rows = np.array(asked[:_ROWS_AT_ONCE_MAX], dtype=np.int64)
        starts, lengths = self._ranges(rows)
        looked = lengths.sum(axis=1)
        if looked.max() > self._looks_max:
            raise LimitExceeded("space_looks_max", self._looks_max, int(looked.max()))
        done = max(1, int(np.searchsorted(looked.cumsum(), _LOOKS_AT_ONCE_MAX, "right")))
        rows, counts, flat_lengths = rows[:done], looked[:done], lengths[:done].ravel()
        self.looked += int(counts.sum())
        # Where each looks, one after the other, ascending by row.
        ends = flat_lengths.cumsum()
        at = np.arange(ends[-1]) + np.repeat(starts[:done].ravel() - ends + flat_lengths, flat_lengths)
        others = self._everybody[at]
        numbers = np.repeat(np.arange(done), counts)
        askers = rows[numbers]
        kept, distances = self._sift(
            self._gap(0, self._xs[others] - self._xs[askers]),
            self._gap(1, self._ys[others] - self._ys[askers]),
            self._radius,
        )
        is_other = others[kept] != askers[kept]
        kept, distances = kept[is_other], distances[is_other]
        others, numbers = others[kept], numbers[kept]
        order = self._order(numbers, distances, others)
        return np.bincount(numbers, minlength=done).tolist(), others[order].tolist()

    def _order(self, numbers: Numbers, distances: Column, others: Numbers) -> Numbers:
        """By row, then the nearest first, then by number."""
        if self._is_grid and len(numbers):
            # Distances are whole or half, so that all three make one number, which is sorted sooner.
            farthest, everybody = int(2 * distances.max()) + 1, len(self._xs)
            if int(numbers[-1] + 1) * farthest * everybody < 1 << 62:
                return np.argsort((numbers * farthest + (2 * distances).astype(np.int64)) * everybody + others)
        nearest_first = np.argsort(distances)
        # Rows of one call have small numbers, which are sorted by counting.
        order = nearest_first[np.argsort(numbers[nearest_first].astype(np.uint16), kind="stable")]
        sorted_distances = distances[order]
        if np.any((np.diff(sorted_distances) == 0) & (np.diff(numbers[order]) == 0)):
            return np.lexsort((others, distances, numbers))
        return order

    def _settle(self) -> None:
        """Puts who waits into their cells."""
        places = np.fromiter(chain.from_iterable(self._waiting), np.float64, 2 * len(self._waiting)).reshape(-1, 2)
        self._waiting = []
        columns, rows = places[:, 0], places[:, 1]
        cells = self._axes[0].find(columns) * self._axes[1].count + self._axes[1].find(rows)
        order = np.argsort(cells, kind="stable")
        self._sorted.append(_Sorted(cells[order], len(self._xs), self._axes[0].count * self._axes[1].count))
        self._everybody = np.concatenate([self._everybody, order + len(self._xs)])
        self._xs = np.concatenate([self._xs, columns + rows % 2 * self._shift if self._shift else columns])
        self._ys = np.concatenate([self._ys, rows])

    def _ranges(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Where in `_everybody` those stand who may be near each row, and how many from there on."""
        across, along = self._axes
        rows_y = self._ys[rows]
        xs = across.find(self._xs[rows] - rows_y % 2 * self._shift if self._shift else self._xs[rows])
        ys = along.find(rows_y)
        spans = along.spans(ys)
        starts, lengths = [], []
        for column, is_column in across.around(xs):
            for low, high, is_span in spans:
                # A span that is not there is one of the first cell, and empty.
                is_there = is_column & is_span
                first = np.where(is_there, column * along.count + low, 0)
                last = np.where(is_there, column * along.count + high, -1)
                for part in self._sorted:
                    start = part.start(first)
                    starts.append(start)
                    lengths.append(part.start(last + 1) - start)
        return np.stack(starts, axis=1), np.stack(lengths, axis=1)

    def _gap(self, axis: int, gaps: Column) -> Column:
        """How far away coordinates are, on a closed axis the shorter way round."""
        gaps = np.abs(gaps)
        length = self._around[axis].length
        return np.where(gaps + gaps <= length, gaps, length - gaps) if self._around[axis].is_closed else gaps


class _Sorted:
    """Entries in the order of their cells, somewhere among others."""

    def __init__(self, cells: Numbers, offset: int, cells_count: int) -> None:
        """`cells` of each, ascending; the first one stands at `offset`."""
        self._offset = offset
        self._cells = cells
        #: Where each cell begins, unless most would be empty.
        self._starts: Numbers | None = None
        if cells_count <= _CELLS_AN_ENTRY * len(cells):
            counts = np.bincount(cells, minlength=cells_count)
            self._starts = np.concatenate([[0], counts.cumsum()]) + offset

    def start(self, cells: Numbers) -> Numbers:
        """Where the entries of cells begin, or would."""
        if self._starts is not None:
            return self._starts[cells]
        return np.searchsorted(self._cells, cells) + self._offset


class _Axis:
    """An axis in cells of one width, at least that of a radius."""

    def __init__(self, axis: Surroundings, radius: float) -> None:
        extent = axis.high - axis.low + axis.step
        width = max((radius + axis.rounding) * _SLACK, _PLACES * axis.step)
        cells = extent / width if width else inf
        self.count = max(1, int(cells)) if cells < _CELLS_MAX else _CELLS_MAX
        self._low = axis.low
        self._per_unit = self.count / extent
        self._is_closed = axis.is_closed

    def find(self, values: Column) -> Numbers:
        """The cells of coordinates."""
        return np.minimum(((values - self._low) * self._per_unit).astype(np.int64), self.count - 1)

    def around(self, cells: Numbers) -> list[tuple[Numbers, Any]]:
        """Cells next to each and itself, each once, beside whether there is such a one."""
        if self._is_closed:
            steps = (0, 1, -1)[: self.count]
            return [((cells + step) % self.count, True) for step in steps]
        return [(near, (near >= 0) & (near < self.count)) for near in (cells - 1, cells, cells + 1)]

    def spans(self, cells: Numbers) -> list[tuple[Numbers, Numbers, Any]]:
        """The same as spans of cells from one to another."""
        low, high = cells - 1, cells + 1
        last = self.count - 1
        spans: list[tuple[Numbers, Numbers, Any]] = [(np.maximum(low, 0), np.minimum(high, last), True)]
        if self._is_closed and self.count > 2:
            seam = np.where(low < 0, last, 0)
            spans.append((seam, seam, (low < 0) | (high > last)))
        return spans


def sift_plane(gaps_x: Column, gaps_y: Column, radius: float) -> tuple[Numbers, Column]:
    """Euclidean. Squares are cheap and leave most out; the last bit is that of `math.hypot`, as of single questions."""
    with np.errstate(over="ignore", under="ignore"):
        near = gaps_x * gaps_x + gaps_y * gaps_y <= radius * radius * (1.0 + 1e-9) + 1e-300
    kept = np.flatnonzero(near)
    distances = np.array(list(map(hypot, gaps_x[kept].tolist(), gaps_y[kept].tolist())), dtype=np.float64)
    inside = distances <= radius
    return kept[inside], distances[inside]


def _sift_moore(gaps_x: Column, gaps_y: Column, radius: float) -> tuple[Numbers, Column]:
    return _keep(np.maximum(gaps_x, gaps_y), radius)


def _sift_von_neumann(gaps_x: Column, gaps_y: Column, radius: float) -> tuple[Numbers, Column]:
    return _keep(gaps_x + gaps_y, radius)


def _sift_hex(gaps_x: Column, gaps_y: Column, radius: float) -> tuple[Numbers, Column]:
    return _keep(np.maximum(gaps_y, gaps_x + gaps_y / 2), radius)


def _keep(distances: Column, radius: float) -> tuple[Numbers, Column]:
    kept = np.flatnonzero(distances <= radius)
    return kept, distances[kept]


SIFT_GRID: Final[dict[Neighbourhood, Sift]] = {
    Neighbourhood.MOORE: _sift_moore,
    Neighbourhood.VON_NEUMANN: _sift_von_neumann,
    Neighbourhood.HEX: _sift_hex,
}
"""Whole and half numbers, so nothing is rounded."""
