"""Who is to be woken when: rows by time, whole crowds at once.

    due     the time of each row, NEVER_NS for most
    crowds  rows by time, as they were set: those whose time is another now are passed over
    times   a heap of the times that have crowds

A crowd that wakes together costs eight bytes a row and one place in the heap; so does one alone.
"""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from agent_runtime.agents.cohort import Rows
from agent_runtime.model.wakes import NEVER_NS

SINGLE_MAX = 64
"""Rows that were set one by one, beyond which those that have another time by now are let go."""
Times = npt.NDArray[np.int64]
"""Nanoseconds of a clock, one a row."""


class _Crowd:
    __slots__ = ("count", "many", "single")

    def __init__(self) -> None:
        self.count = 0
        """Rows that still are to be woken at this time."""
        self.many: list[Rows] = []
        self.single: list[int] = []


class Agenda:
    """At most one time a row."""

    def __init__(self, rows: int) -> None:
        self.due: Times = np.full(rows, NEVER_NS, dtype=np.int64)
        """Not to be changed from outside."""
        self._crowds: dict[int, _Crowd] = {}
        self._times: list[int] = []
        self._queued: set[int] = set()
        """What stands in the heap, each time once."""

    @property
    def next_ns(self) -> int | None:
        """The first of all times; None = nobody is to be woken."""
        while self._times and self._times[0] not in self._crowds:
            self._queued.discard(heapq.heappop(self._times))
        return self._times[0] if self._times else None

    def set(self, row: int, at_ns: int) -> None:
        """Wake a row at a time, in place of its earlier one; NEVER_NS = not at all."""
        earlier = int(self.due[row])
        if earlier == at_ns:
            return
        self.due[row] = at_ns
        self._leave(earlier, 1)
        if at_ns != NEVER_NS:
            crowd = self._enter(at_ns, 1)
            crowd.single.append(row)
            if len(crowd.single) > max(SINGLE_MAX, 2 * crowd.count):
                crowd.many, crowd.single = [self._gather(crowd, at_ns)], []

    def set_many(self, rows: Rows, times: Times) -> None:
        """The same for many rows, each once, one time a row."""
        changed = self.due[rows] != times
        rows, times = rows[changed], times[changed]
        if not len(rows):
            return
        earlier, counts = np.unique(self.due[rows], return_counts=True)
        for at_ns, count in zip(earlier.tolist(), counts.tolist(), strict=True):
            self._leave(at_ns, count)
        self.due[rows] = times
        order = np.argsort(times, kind="stable")
        rows, times = rows[order], times[order]
        starts = np.flatnonzero(np.diff(times, prepend=times[:1] - 1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(times)], strict=True):
            if (at_ns := int(times[start])) != NEVER_NS:
                self._enter(at_ns, end - start).many.append(rows[start:end])

    def take_due(self, now_ns: int) -> list[tuple[int, Rows]]:
        """Rows whose time has come, by time, each ascending; they are not to be woken any more."""
        taken = []
        while (at_ns := self.next_ns) is not None and at_ns <= now_ns:
            crowd = self._crowds.pop(at_ns)
            rows = self._gather(crowd, at_ns)
            self.due[rows] = NEVER_NS
            taken.append((at_ns, rows))
        return taken

    def _gather(self, crowd: _Crowd, at_ns: int) -> Rows:
        """Those of a crowd whose time it still is, ascending."""
        rows = np.unique(np.concatenate([*crowd.many, np.array(crowd.single, dtype=np.int32)]))
        return rows[self.due[rows] == at_ns]

    def _enter(self, at_ns: int, count: int) -> _Crowd:
        crowd = self._crowds.get(at_ns)
        if crowd is None:
            crowd = self._crowds[at_ns] = _Crowd()
            if at_ns not in self._queued:
                self._queued.add(at_ns)
                heapq.heappush(self._times, at_ns)
        crowd.count += count
        return crowd

    def _leave(self, at_ns: int, count: int) -> None:
        if at_ns == NEVER_NS:
            return
        crowd = self._crowds[at_ns]
        crowd.count -= count
        if not crowd.count:
            del self._crowds[at_ns]
