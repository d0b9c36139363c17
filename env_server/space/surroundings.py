"""What lies around a coordinate on an axis, which may be closed to a ring, and around a position of two of them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import product
from math import inf

from env_server.model.spaces import Position
from env_server.space.cell_tree import Range, Window
from env_server.space.leaves import Found, Seen, Spots


class Surroundings:
    """An axis from one coordinate to another. On a closed one the second is the first again, plus `step`."""

    def __init__(self, axis: Range, rounding: float, *, closed: bool, step: float = 0.0) -> None:
        """`rounding`: that a difference of two coordinates may be off."""
        self.low, self.high = axis
        self.step = step
        self.is_closed = closed
        self.length = self.high - self.low + step if closed else inf
        self.rounding = rounding

    def ranges(self, value: float, radius: float) -> list[Range]:
        """All that is at most `radius` from a value: one range, or two across the seam."""
        low, high = self.low, self.high
        radius += self.rounding
        start, end = value - radius, value + radius
        if start >= low and end <= high:
            return [(start, end)]
        if self.length == inf or end - start >= self.length:
            return [(max(start, low), min(end, high))] if self.length == inf else [(low, high)]
        if start < low:
            return [(low, min(end, high)), (max(start + self.length, low), high)]
        return [(max(start, low), high), (low, min(end - self.length, high))]

    def range(self, value: float, radius: float) -> Range | None:
        """As `ranges`; None where that leads across the seam, or near it."""
        radius += self.rounding
        start, end = value - radius, value + radius
        return (start, end) if self.length == inf or (start >= self.low and end <= self.high) else None

    def gap(self, value: float, low: float, high: float) -> float:
        """From a value to the nearest of a range."""
        if value < low:
            return max(0.0, min(low - value, value + self.length - high))
        if value > high:
            return max(0.0, min(value - high, low + self.length - value))
        return 0.0


class FlatLens(ABC):
    """Distances of which each axis has its part."""

    def __init__(self, position: Position, around_x: Surroundings, around_y: Surroundings) -> None:
        self.x, self.y = position
        self.around_x, self.around_y = around_x, around_y

    def sift(self, spots: Spots, bound: float) -> Seen:
        window = self.window(bound)
        return self._sift_across(spots, bound) if window is None else self._sift_window(spots, bound, window)

    @abstractmethod
    def _sift_window(self, spots: Spots, bound: float, window: Window) -> Seen:
        """As `sift`; all that is within the bound lies in the window, which no seam crosses."""

    @abstractmethod
    def _sift_across(self, spots: Spots, bound: float) -> Seen:
        """As `sift`, where the nearest image of somebody may lie beyond the seam of a torus."""

    def window(self, radius: float) -> Window | None:
        """A rectangle that holds all that is at most `radius` away, and no seam; None where there is none such."""
        across = self.around_x.range(self.x, radius)
        along = self.around_y.range(self.y, radius)
        return None if across is None or along is None else (across, along)

    def estimate(self, spots: Spots) -> Seen:
        return self.sift(spots, inf)

    def gather(self, leaves: Sequence[Spots], bound: float, count: int) -> Found:
        window = self.window(bound)
        if window is None:
            return [(distance, row, leaf) for leaf in leaves for distance, row in self._sift_across(leaf, bound)]
        return [(distance, row, leaf) for leaf in leaves for distance, row in self._sift_window(leaf, bound, window)]

    def windows(self, radius: float) -> list[Window]:
        return [*product(self.around_x.ranges(self.x, radius), self.around_y.ranges(self.y, radius))]

    def gap_x(self, low: float, high: float) -> float:
        return self.around_x.gap(self.x, low, high)

    def gap_y(self, low: float, high: float) -> float:
        return self.around_y.gap(self.y, low, high)
