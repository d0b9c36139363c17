"""The newest groups of a world, decoded, shared by all watches: the only place where published groups are held."""

from bisect import bisect_left

from env_server.model.changes import Changes

_SLACK = 512
"""Freed places in front of the lists before they are cut off."""


class Ring:
    """Groups in order, without a gap, at most `bytes_max` encoded bytes of them, but always the newest.

    A group's position counts from 0 and never changes, so that a watch can refer to a group that may be gone.
    """

    __slots__ = ("_bytes", "_bytes_max", "_dropped", "_groups", "_lasts", "_start")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._groups: list[Changes | None] = []
        self._lasts: list[int] = []
        self._start = 0
        self._dropped = 0
        """Position of element 0 of the lists."""

    @property
    def size_bytes(self) -> int:
        """Encoded size of the groups held."""
        return self._bytes

    @property
    def first(self) -> int:
        """Position of the oldest group held."""
        return self._dropped + self._start

    @property
    def end(self) -> int:
        """Position that the next group will get."""
        return self._dropped + len(self._groups)

    def append(self, changes: Changes) -> int:
        """Adds the group that follows the newest one; drops old ones beyond the bound. Returns its position."""
        self._groups.append(changes)
        self._lasts.append(changes.last_revision)
        self._bytes += changes.size_bytes
        while self._bytes > self._bytes_max and self._start < len(self._groups) - 1:
            oldest = self._groups[self._start]
            assert oldest is not None
            self._bytes -= oldest.size_bytes
            self._groups[self._start] = None
            self._start += 1
        if self._start > _SLACK and self._start > len(self._groups) // 2:
            del self._groups[: self._start], self._lasts[: self._start]
            self._dropped += self._start
            self._start = 0
        return self.end - 1

    def get(self, position: int) -> Changes | None:
        """The group at a position below `end`; None when it was dropped."""
        return self._groups[position - self._dropped] if position >= self._dropped else None

    def find(self, revision: int) -> int | None:
        """Position of the group that holds `revision`, `end` when it lies above all; None when it is no longer held."""
        if self._start == len(self._groups):
            return None
        oldest = self._groups[self._start]
        assert oldest is not None
        if revision <= oldest.base_revision:
            return None
        return self._dropped + bisect_left(self._lasts, revision, self._start)
