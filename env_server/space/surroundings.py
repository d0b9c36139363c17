"""What lies around a coordinate on an axis, which may be closed to a ring."""

from math import inf

from env_server.space.spot_tree import Range


class Surroundings:
    """An axis from one coordinate to another. On a closed one the second is the first again, plus `step`."""

    def __init__(self, axis: Range, rounding: float, *, closed: bool, step: float = 0.0) -> None:
        """`rounding`: that a difference of two coordinates may be off."""
        self.low, self.high = axis
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

    def gap(self, value: float, low: float, high: float) -> float:
        """From a value to the nearest of a range."""
        if value < low:
            return max(0.0, min(low - value, value + self.length - high))
        if value > high:
            return max(0.0, min(value - high, low + self.length - value))
        return 0.0
