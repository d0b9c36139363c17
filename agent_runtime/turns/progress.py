"""How far a part has come: the revision up to which every event has had its effect, and each agent's turns up to there.

    admitted ──► open: turns that have not ended, counted by the revision that began them
             └─► past `through`: who was given what, so that turns can be counted as they were at `through`

Nothing here is kept by agent: a notice for everyone is one line, one for an agent sixteen bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

EVERY_ROW = -1
Counts = npt.NDArray[np.int32]
"""Turns that each row has been given so far."""


class Progress:
    """Of one part. Notices must be admitted in the order of revisions."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._revisions = array("q")
        self._rows = array("i")
        self._left_out: dict[int, npt.NDArray[np.bool_]] = {}
        self.on_idle: Callable[[], None] | None = None
        """Called when the last turn that was begun has ended."""

    @property
    def is_idle(self) -> bool:
        """Whether every turn that was begun has ended."""
        return not self._open

    @property
    def turns_open(self) -> int:
        """How many turns were given and have not ended."""
        return sum(self._open.values())

    def admit(self, revision: int, row: int, turns: int, left_out: npt.NDArray[np.bool_] | None = None) -> None:
        """A notice went to a row, or to EVERY_ROW but those `left_out`; `turns` of it will be told as ended."""
        if turns:
            self._open[revision] = self._open.get(revision, 0) + turns
        if left_out is not None:
            self._left_out[len(self._revisions)] = left_out
        self._revisions.append(revision)
        self._rows.append(row)

    def admit_rows(self, revision: int, rows: npt.NDArray[np.int32], turns: int) -> None:
        """A notice went to some rows, once each; `turns` of it will be told as ended."""
        if turns:
            self._open[revision] = self._open.get(revision, 0) + turns
        self._revisions.extend(array("q", [revision]) * len(rows))
        self._rows.frombytes(rows.astype(np.int32).tobytes())

    def end(self, revision: int, turns: int = 1) -> None:
        """Turns that the event of `revision` began have had their effect, and are recorded."""
        left = self._open[revision] - turns
        if left:
            self._open[revision] = left
            return
        del self._open[revision]
        if not self._open and self.on_idle is not None:
            self.on_idle()

    def through(self, reached: int) -> int:
        """Up to where everything has had its effect, when all events up to `reached` have been admitted."""
        # In the order of their admission, which is that of revisions.
        oldest = next(iter(self._open), None)
        return reached if oldest is None else min(reached, oldest - 1)

    def count_turns(self, counts: Counts, through: int) -> Counts:
        """The turns that each row was given up to `through`, out of the `counts` of now; forgets what lies before."""
        self._forget(bisect_right(self._revisions, through))
        counts = counts.copy()
        rows = np.array(self._rows, dtype=np.int32)
        counts -= np.int32((rows == EVERY_ROW).sum())
        for left_out in self._left_out.values():
            counts[left_out] += 1
        np.subtract.at(counts, rows[rows != EVERY_ROW], 1)
        return counts

    def _forget(self, count: int) -> None:
        if count:
            del self._revisions[:count], self._rows[:count]
            self._left_out = {place - count: rows for place, rows in self._left_out.items() if place >= count}
