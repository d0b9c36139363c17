"""The lowest of many numbers that rise often, found without looking at those that are not lowest."""

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic, TypeVar

T = TypeVar("T", bound=Hashable)
_SLACK: Final = 64


class Lowest(Generic[T]):
    """A heap whose entries may be too low. A number that rises costs nothing until it would be the lowest."""

    def __init__(self, number_of: Callable[[T], int]) -> None:
        self._number_of = number_of
        self._heap: list[tuple[int, int, T]] = []
        self._entries: dict[T, int] = {}
        """The entry of each that counts."""
        self._noted = 0

    def note(self, item: T) -> None:
        """Takes it in, or again: call this when its number may have fallen."""
        self._noted += 1
        self._entries[item] = self._noted
        heappush(self._heap, (self._number_of(item), self._noted, item))
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._heap = [entry for entry in self._heap if self._counts(entry)]
            heapify(self._heap)

    def drop(self, item: T) -> None:
        """Leaves it out from now on."""
        self._entries.pop(item, None)

    def find(self, below: int | None = None) -> tuple[int, T] | None:
        """The lowest number and whose it is; None when there is none, or none below `below`."""
        heap = self._heap
        while heap:
            entry = heap[0]
            if not self._counts(entry):
                heappop(heap)
                continue
            if below is not None and entry[0] >= below:
                return None
            number = self._number_of(entry[2])
            if number == entry[0]:
                return number, entry[2]
            heapreplace(heap, (number, entry[1], entry[2]))
        return None

    def _counts(self, entry: tuple[int, int, T]) -> bool:
        return self._entries.get(entry[2]) == entry[1]
