"""What waits for busy agents: bounded, in order, and nothing an agent while nothing waits.

    turns   number of the last turn of each row
    busy    whether a turn of the row runs (or is about to)
    waiting how many notices wait for it

A notice for everyone that meets busy agents is kept once, with the rows that it waits for; a notice for one
agent is kept with that agent. Numbers put the two kinds in one order.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from agent_runtime.agents.cohort import Rows
from agent_runtime.model.notices import Notice
from agent_runtime.turns.progress import EVERY_ROW, Counts, Progress

Numbers = npt.NDArray[np.int32]
"""Numbers of turns, one a row. Fixed when a turn starts: what is refused meanwhile takes the next ones."""

NO_ROWS = np.zeros(0, dtype=np.int32)


class Admission(Enum):
    """What became of a notice for one agent."""

    STARTS = "starts"
    WAITS = "waits"
    REFUSED = "refused"
    KNOWN = "known"


@dataclass(slots=True)
class _Broadcast:
    """A notice for everyone, and who has not had it yet."""

    number: int
    notice: Notice
    rows: npt.NDArray[np.bool_]
    left: int


class Mailboxes:
    """Mailboxes of the agents of one group in one worker. Notices must come in the order of revisions.

    At most `depth_max` notices wait for an agent; what comes beyond is refused, and still counts as one
    of its turns, so that its number is free for the record. Wakes are never refused: what an agent wants next stands
    in the turn of each, and but one of an agent is outstanding at a time.
    """

    def __init__(self, agents: int, depth_max: int, turns: Counts | None = None) -> None:
        """`turns`: those that the agents have had before."""
        self.progress = Progress()
        """Knows every notice that is admitted; whoever ends a turn that was not refused tells it."""
        self.turns = np.zeros(agents, dtype=np.int32) if turns is None else turns.copy()
        self.busy = np.zeros(agents, dtype=np.bool_)
        self.waiting = np.zeros(agents, dtype=np.uint16)
        self._noticed = np.zeros(agents, dtype=np.int64)
        self._depth_max = depth_max
        self._broadcasts: list[_Broadcast] = []
        self._letters: dict[int, deque[tuple[int, Notice]]] = {}
        self._numbers = itertools.count()

    def admit_all(self, notice: Notice) -> tuple[Rows, Rows]:
        """Gives a notice to everyone who has not had one of its revision.

        Returns the rows whose turn starts now, which count as busy from now on, and those refused.
        """
        fresh = self._noticed < notice.revision
        known = None if fresh.all() else ~fresh
        self._noticed[fresh] = notice.revision
        starts = _rows(fresh & ~self.busy)
        self.busy[starts] = True
        self.turns[starts] += 1
        late = fresh
        late[starts] = False
        if not late.any():
            self.progress.admit(notice.revision, EVERY_ROW, len(starts), known)
            return starts, NO_ROWS
        refused = _rows(late & (self.waiting >= self._depth_max))
        self.progress.admit(notice.revision, EVERY_ROW, len(starts) + int(late.sum()) - len(refused), known)
        self.turns[refused] += 1
        late[refused] = False
        self.waiting[late] += 1
        if left := int(late.sum()):
            self._broadcasts.append(_Broadcast(next(self._numbers), notice, late, left))
        return starts, refused

    def admit_one(self, row: int, notice: Notice) -> Admission:
        """Gives a notice to one agent."""
        if self._noticed[row] >= notice.revision:
            return Admission.KNOWN
        self._noticed[row] = notice.revision
        is_refused = bool(self.busy[row]) and self.waiting[row] >= self._depth_max
        self.progress.admit(notice.revision, row, 0 if is_refused else 1)
        if not self.busy[row]:
            self.busy[row] = True
            self.turns[row] += 1
            return Admission.STARTS
        if is_refused:
            self.turns[row] += 1
            return Admission.REFUSED
        self.waiting[row] += 1
        self._letters.setdefault(row, deque()).append((next(self._numbers), notice))
        return Admission.WAITS

    def admit_wakes(self, rows: Rows, notice: Notice) -> Rows:
        """Gives a wake to some agents who have had no notice of its revision, each once.

        Returns the rows whose turn starts now, in the order of `rows`; they count as busy from now on. The others wait.
        """
        self._noticed[rows] = notice.revision
        is_busy = self.busy[rows]
        starts, late = rows[~is_busy], rows[is_busy]
        self.busy[starts] = True
        self.turns[starts] += 1
        self.progress.admit_rows(notice.revision, rows, len(rows))
        self.waiting[late] += 1
        for row in late.tolist():
            self._letters.setdefault(row, deque()).append((next(self._numbers), notice))
        return starts

    def release_one(self, row: int) -> Notice | None:
        """A turn has ended: the agent's next notice, if one waits; its turn has then begun."""
        if not self.waiting[row]:
            self.busy[row] = False
            return None
        notice = self._take_next(row)
        self.turns[row] += 1
        return notice

    def release_many(self, rows: Rows) -> list[tuple[Notice, Rows]]:
        """Turns have ended: who of the agents goes on with what; those turns have begun, the others are free."""
        expectant = rows[self.waiting[rows] > 0]
        self.busy[rows] = False
        if not len(expectant):
            return []
        self.busy[expectant] = True
        self.turns[expectant] += 1
        begun: dict[int, tuple[Notice, list[int]]] = {}
        for row in expectant.tolist():
            notice = self._take_next(row)
            begun.setdefault(id(notice), (notice, []))[1].append(row)
        return [(notice, np.array(chosen, dtype=np.int32)) for notice, chosen in begun.values()]

    def count_turns(self, through: int) -> Counts:
        """The turns that each agent was given by events up to `through`."""
        return self.progress.count_turns(self.turns + self.waiting, through)

    def _take_next(self, row: int) -> Notice:
        self.waiting[row] -= 1
        letters = self._letters.get(row)
        first_letter = letters[0][0] if letters else None
        for place, broadcast in enumerate(self._broadcasts):
            if first_letter is not None and broadcast.number > first_letter:
                break
            if broadcast.rows[row]:
                broadcast.rows[row] = False
                broadcast.left -= 1
                if not broadcast.left:
                    del self._broadcasts[place]
                return broadcast.notice
        assert letters is not None
        notice = letters.popleft()[1]
        if not letters:
            del self._letters[row]
        return notice


def _rows(mask: npt.NDArray[np.bool_]) -> Rows:
    return np.flatnonzero(mask).astype(np.int32)
