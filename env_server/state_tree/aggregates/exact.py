"""Exact sums of doubles and integers, whatever their order, and counts that can be taken back.

Every double is an integer multiple of 2**-1074, so a sum is kept as one integer in that unit: adding and removing are
exact, the order does not matter, and division gives the correctly rounded double. Numbers are first collected in a
list and folded in by `math.fsum` in C: an fsum gives the rounded sum, a second one of the rest the remainder, and so
on until nothing is left (three rounds, as a rule), so a number costs about 0.1 µs instead of a big-integer addition.
"""

import math
from heapq import heapify, heappop, heappush
from typing import Any

from env_server.model.values import INT_MAX, INT_MIN

_UNIT_BITS = 1074
_FOLD_AT = 8192


def to_units(number: float) -> int:
    """A finite double in units of 2**-1074, exactly."""
    numerator, denominator = number.as_integer_ratio()
    return (numerator << _UNIT_BITS) // denominator


class ExactSum:
    """The exact sum of what was added less what was removed."""

    __slots__ = ("_pending", "_units")

    def __init__(self) -> None:
        self._units = 0
        self._pending: list[float] = []

    def add(self, number: float) -> None:
        """Adds a finite double; removes one when given its negative."""
        pending = self._pending
        pending.append(number)
        if len(pending) >= _FOLD_AT:
            self._fold()

    def add_units(self, units: int) -> None:
        """Adds a number that was told by `units`."""
        self._units += units

    def add_int(self, number: int) -> None:
        """Adds an integer of any size."""
        self._units += number << _UNIT_BITS

    def units(self) -> int:
        """The sum in units of 2**-1074."""
        if self._pending:
            self._fold()
        return self._units

    def value(self) -> float | None:
        """The correctly rounded sum; None beyond the range of a double."""
        return self.divided(1)

    def integer(self) -> int | float | None:
        """The sum of integers alone: itself within 64 bits, beyond them rounded to a double."""
        total = self.units() >> _UNIT_BITS
        return total if INT_MIN <= total <= INT_MAX else self.value()

    def divided(self, divisor: int) -> float | None:
        """The correctly rounded quotient; None beyond the range of a double."""
        try:
            return self.units() / (divisor << _UNIT_BITS)
        except OverflowError:
            return None

    def _fold(self) -> None:
        pending = self._pending
        try:
            while part := math.fsum(pending):
                self._units += to_units(part)
                pending.append(-part)
        except OverflowError:  # the running sum left the range of a double, although the end may lie within it
            self._units += sum(map(to_units, pending))
        pending.clear()


class Extremes:
    """Smallest or largest number of a changing multiset: O(log n) a change, by a heap with lazy removal.

    Of equal integers and doubles a double is told, and never -0.0, so that the order of changes does not matter.
    """

    __slots__ = ("_counts", "_doubles", "_heap", "_live", "_sign")

    def __init__(self, sign: int) -> None:
        """`sign` 1 keeps the smallest, -1 the largest."""
        self._sign = sign
        self._heap: list[int | float] = []
        self._counts: dict[int | float, int] = {}
        #: How many of them are doubles, where that is more than none.
        self._doubles: dict[int | float, int] = {}
        self._live = 0

    def add(self, number: int | float) -> None:
        """One more of this number."""
        key = self._sign * number
        count = self._counts.get(key)
        if count is None:
            heappush(self._heap, key)
        self._counts[key] = (count or 0) + 1
        self._live += 1
        if type(number) is float:
            self._doubles[key] = self._doubles.get(key, 0) + 1

    def remove(self, number: int | float) -> None:
        """One less of this number, which must be there."""
        key = self._sign * number
        self._counts[key] -= 1
        self._live -= 1
        if type(number) is float:
            if self._doubles[key] == 1:
                del self._doubles[key]
            else:
                self._doubles[key] -= 1
        if len(self._heap) > 2 * self._live + 64:
            self._counts = {key: count for key, count in self._counts.items() if count}
            self._heap = list(self._counts)
            heapify(self._heap)

    def containers(self) -> list[Any]:
        """What holds the numbers; for taking it apart that is no longer needed."""
        return [self._heap, self._counts, self._doubles]

    def value(self) -> int | float | None:
        """The extreme; None when empty."""
        heap, counts = self._heap, self._counts
        while heap:
            if counts[heap[0]]:
                extreme = self._sign * heap[0]
                return float(extreme) + 0.0 if heap[0] in self._doubles else int(extreme)
            del counts[heappop(heap)]
        return None
