"""The wakes of the agents of one part: who wants to be woken when, whom a timer wakes, and what a turn changes of it.

asked for ──► pending, in the agenda ──timer──► outstanding: its turn waits or runs ──► ended, with what it asked for
                    ▲                                                                             │
                    └─────────────────────────────────────────────────────────────────────────────┘

An agent has at most one outstanding wake; its next one waits for the end of that turn. So the turns of an agent follow
from what it asked for, in the order of times, however its part is cut and however far the clock goes at a time: a wake
is told with its own time, not with that of the clock when it came about.

Of a part that was taken over, the book says what is pending, and the log whom a timer woke already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from ecumene.client import Event, Value

from agent_runtime.agents.cohort import Cohort, Rows
from agent_runtime.model.actions import Remembered
from agent_runtime.model.incidents import Incidents
from agent_runtime.model.wakes import (
    NEVER_NS,
    TIME_MIN_NS,
    Wake,
    Wakes,
    WakesUnreadableError,
    Wishes,
    change_wakes,
    read_wakes,
)
from agent_runtime.ownership.history import History
from agent_runtime.ownership.wake_book import WakeBook
from agent_runtime.turns.agenda import Agenda, Times
from agent_runtime.turns.sent_turns import SentTurns


class Woken(NamedTuple):
    """Rows that a timer wakes, in the order of ids, all at one time and for the same wakes."""

    at_ns: int
    wakes: Wakes
    rows: Rows


class PartWakes:
    """Of one part. Used in the worker's loop only."""

    def __init__(self, book: WakeBook, cohort: Cohort, history: History | None, incidents: Incidents) -> None:
        self.book = book
        self._cohort = cohort
        self._history = history
        self._incidents = incidents
        self._agenda = Agenda(len(cohort))
        self._woke: Times = np.full(len(cohort), NEVER_NS, dtype=np.int64)
        self._calendars: dict[int, Wakes] = {}
        """What is pending of rows, where that is more than one nameless wake in the agenda."""
        self._fired: dict[int, Wakes] = {}
        """What is outstanding of rows, where that is more than one nameless wake."""
        self._repeated: dict[int, int] = {}
        """How many turns of rows, that were taken or begun before, are still to be recorded."""
        self._loaded: dict[int, int] = {}
        """Of which revision what the book says of a row is; until what happened before the taking is past."""
        self._skipped_ns = TIME_MIN_NS
        """To where a skip of the clock has come last: wakes that it has passed are told with that time."""
        self.sent = SentTurns(self._note_sent)
        """Turns that wait for nothing but the world's answer."""
        self.has_changed = asyncio.Event()
        """Whether the first of all times may be another one."""
        self.on_sent: Callable[[], None] | None = None
        """Called when turns have sent all that they do."""

    @property
    def next_ns(self) -> int | None:
        """The first time at which somebody is to be woken who has no turn before that.

        Turns whose ops are on their way are as good as ended: what they want next counts.
        """
        first_ns = self.sent.first_ns
        if (next_ns := self._agenda.next_ns) is not None:
            first_ns = min(first_ns, next_ns)
        return None if first_ns == NEVER_NS else first_ns

    def begin(self, times: Times) -> None:
        """The first wakes of all, NEVER_NS for those who have none."""
        self._agenda.set_many(np.arange(len(self._cohort), dtype=np.int32), times)
        self.has_changed.set()

    def load(self, agent: str, document: Value, revision: int) -> None:
        """What the book says of an agent, in place of its first wake. What cannot be read is an incident, and none."""
        row = self._cohort.find_row(agent)
        if row is None:
            return
        try:
            wakes, woke_ns = read_wakes(agent, document)
            if woke_ns is not None and wakes and wakes[0].at_ns < woke_ns:
                # A skip had passed what lies before the agent's last wake.
                wakes = tuple(replace(wake, at_ns=max(wake.at_ns, woke_ns)) for wake in wakes)
        except WakesUnreadableError as error:
            self._incidents.note(f"wakes of {agent}", error)
            wakes = ()
        self._loaded[row] = revision
        self._set(row, wakes)

    def hear(self, event: Event) -> list[Woken]:
        """Whom a firing of the part's timer wakes; see `fire`."""
        is_skipped = isinstance(event.value, dict) and event.value.get("skipped") is True
        return self.fire(event.revision, event.sim_time_ns or 0, is_skipped=is_skipped)

    def fire(self, revision: int, now_ns: int, *, is_skipped: bool = False) -> list[Woken]:
        """Whom the timer's event of `revision` wakes; from now on those wakes are outstanding. In order.

        `is_skipped`: the clock was skipped to `now_ns`, so that it has never been at the times before.
        """
        if is_skipped:
            self._skipped_ns = max(self._skipped_ns, now_ns)
        woken: list[Woken] = []
        for at_ns, rows in self._agenda.take_due(now_ns):
            rows = self._leave_late(rows, at_ns, revision)
            told_ns = max(at_ns, self._skipped_ns)
            self._woke[rows] = told_ns
            woken += [Woken(told_ns, *one) for one in self._group(at_ns, rows)]
        self.has_changed.set()
        return woken

    def fire_again(self, revision: int) -> list[Woken]:
        """Whom the event has woken before, by an earlier owner, so that they took their turn or began it.

        Asked before `fire` is.
        """
        done: Mapping[str, int] = self._history.find_woken(revision) if self._history is not None else {}
        woken: list[Woken] = []
        for agent, at_ns in sorted(done.items(), key=lambda one: (one[1], one[0])):
            if (row := self._cohort.find_row(agent)) is None:
                continue
            pending = self.pending(row)
            self._repeated[row] = self._repeated.get(row, 0) + 1
            self._set(row, pending)
            woken.append(Woken(at_ns, (Wake(at_ns),), np.array([row], dtype=np.int32)))
        return woken

    def times(self, rows: Rows) -> Times:
        """The times of the outstanding wakes of rows."""
        return self._woke[rows]

    def pending(self, row: int) -> Wakes:
        """What a row still wants."""
        known = self._calendars.get(row)
        if known is not None:
            return known
        at_ns = int(self._agenda.due[row])
        return () if at_ns == NEVER_NS else (Wake(at_ns),)

    def note(self, row: int, agent: str, wishes: Wishes, woke_ns: int | None) -> Remembered:
        """What the world is to keep of an agent after a turn; `woke_ns`: the time of the wake that was its."""
        wakes = change_wakes(self.pending(row), wishes)
        if woke_ns is None and (outstanding := self._find_outstanding(row)):
            # Its turn is still to come, here or elsewhere; two of one name may stand there until then.
            wakes = (*outstanding, *wakes)
        return self.book.note(agent, wakes, woke_ns)

    def end(self, row: int, wishes: Wishes, is_wake: bool) -> None:
        """A turn of a row has ended."""
        wakes = change_wakes(self.pending(row), wishes) if wishes else self.pending(row)
        if is_wake:
            self._take_back(row)
        self._set(row, wakes)

    def end_many(self, rows: Rows, times: Times) -> None:
        """Turns of wakes of rows have ended, each of which wants one nameless wake next, or NEVER_NS."""
        if self._calendars or self._repeated:
            for row, at_ns in zip(rows.tolist(), times.tolist(), strict=True):
                self._take_back(row)
                self._set(row, () if at_ns == NEVER_NS else (Wake(at_ns),))
            return
        self._woke[rows] = NEVER_NS
        self._agenda.set_many(rows, times)
        self.has_changed.set()

    def end_unchanged(self, rows: Rows) -> None:
        """The same, of turns that were taken before: what they asked for is known already."""
        for row in rows.tolist():
            self.end(row, {}, is_wake=True)

    def _note_sent(self) -> None:
        self.has_changed.set()
        if self.on_sent is not None:
            self.on_sent()

    def _take_back(self, row: int) -> None:
        """The turn of a row's wake has ended: one that is repeated, if there are any, as those come first."""
        if row in self._repeated:
            self._repeated[row] -= 1
            if not self._repeated[row]:
                del self._repeated[row]
            return
        self._woke[row] = NEVER_NS
        self._fired.pop(row, None)

    def _set(self, row: int, wakes: Wakes) -> None:
        is_outstanding = row in self._repeated or self._woke[row] != NEVER_NS
        is_plain = not wakes or (len(wakes) == 1 and wakes[0] == Wake(wakes[0].at_ns))
        if wakes and (is_outstanding or not is_plain):
            self._calendars[row] = wakes
        else:
            self._calendars.pop(row, None)
        self._agenda.set(row, NEVER_NS if is_outstanding or not wakes else wakes[0].at_ns)
        self.has_changed.set()

    def _find_outstanding(self, row: int) -> Wakes:
        at_ns = int(self._woke[row])
        return () if at_ns == NEVER_NS else self._fired.get(row, (Wake(at_ns),))

    def _leave_late(self, rows: Rows, at_ns: int, revision: int) -> Rows:
        """Those of rows that wanted it when the event took place: what is asked for later, a later event wakes."""
        if not self._loaded:
            return rows
        if self._history is None or revision > self._history.term:
            self._loaded.clear()
            return rows
        late = np.fromiter((self._loaded.get(row, 0) >= revision for row in rows.tolist()), np.bool_, len(rows))
        for row in rows[late].tolist():
            self._agenda.set(row, at_ns)
        return rows[~late]

    def _group(self, at_ns: int, rows: Rows) -> list[tuple[Wakes, Rows]]:
        """Rows in the order of their ids, those next to each other together whose wakes are alike."""
        rows = self._cohort.sort_rows(rows)
        if not self._calendars:
            return [((Wake(at_ns),), rows)] if len(rows) else []
        alike: list[tuple[Wakes, list[int]]] = []
        for row in rows.tolist():
            wakes = self._take_calendar(row, at_ns)
            if alike and alike[-1][0] == wakes:
                alike[-1][1].append(row)
            else:
                alike.append((wakes, [row]))
        return [(wakes, np.array(some, dtype=np.int32)) for wakes, some in alike]

    def _take_calendar(self, row: int, at_ns: int) -> Wakes:
        """The wakes of a row at a time, which are outstanding from now on."""
        pending = self._calendars.get(row)
        if pending is None:
            return (Wake(at_ns),)
        wakes = tuple(wake for wake in pending if wake.at_ns == at_ns)
        if left := tuple(wake for wake in pending if wake.at_ns != at_ns):
            self._calendars[row] = left
        else:
            del self._calendars[row]
        self._fired[row] = wakes
        return wakes
