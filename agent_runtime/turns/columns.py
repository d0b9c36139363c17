"""Turns of rule agents, many at a time: the same stages as single turns, in columns.

notice ─► mailboxes ─► room ─► thinking ─► decide_many ─► validation ─► one frame ─► outcomes ─► records
              ▲          └ eight bytes a row that waits for it                                │
              └──────────────────── whoever has another notice ◄──────────────────────────────┘
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from ecumene.client import Event

from agent_runtime.agents.agent import RuleAgents
from agent_runtime.agents.cohort import Cohort, Rows
from agent_runtime.llm.latency import FixedLatency
from agent_runtime.model.notices import EVERYONE, Notice
from agent_runtime.ownership.history import History
from agent_runtime.turns.adopted_turns import group_done
from agent_runtime.turns.column_frames import ColumnFrames
from agent_runtime.turns.ends import MAILBOX_FULL, STOPPED
from agent_runtime.turns.interviews import InterviewQuestion, NoAgentError, NoMemoryError, interview_rule
from agent_runtime.turns.mailboxes import Admission, Mailboxes, Numbers
from agent_runtime.turns.part_context import PartContext
from agent_runtime.turns.statistics import TurnsStatistics
from agent_runtime.turns.thinking import NEVER_S, Thinkers, ThinkingRows, draw_delays_ms, join_alike

# Rows that start in one step of the loop: an array operation costs little, a draw an agent some microseconds.
START_ROWS = 65_536
START_ROWS_DRAWN = 4_096
# Turns that end make room for others in pieces of at least this share of all, so that frames stay full.
REFILL_SHARE = 16


class ColumnTurns:
    """All turns of the RuleAgents of one part. At most `turns_in_flight_max` run at a time."""

    def __init__(
        self,
        context: PartContext,
        cohort: Cohort,
        agents: RuleAgents,
        pack_rows: int,
        linger_s: float,
        turns: Numbers | None = None,
    ) -> None:
        """`turns`: those that the agents have had before."""
        self._context = context
        self._cohort = cohort
        self._agents = agents
        self._pack_rows = pack_rows
        self._linger_s = linger_s
        self._latency = context.spec.thinking.distribution()
        self.mailboxes = Mailboxes(len(cohort), context.spec.mailbox_max, turns)
        self._starts: deque[tuple[Notice, Rows, Numbers]] = deque()
        self._running = 0
        """Rows between their start and their release."""
        self._running_max = context.spec.turns_in_flight_max
        self._refill_rows = max(1, min(pack_rows, self._running_max // REFILL_SHARE))
        self._thinking = ThinkingRows()
        self._due: deque[Thinkers] = deque()
        """Those who have thought and wait to be answered; empty but while answers are held up."""
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._is_stopping = False
        self._frames = ColumnFrames(context, cohort, agents, self._release)
        self._wakes = self._frames.wakes
        self._adopting = 0

    @property
    def is_caught_up(self) -> bool:
        """Whether no turn that was taken before is left to be recorded, of the notices that were delivered."""
        return not self._starts and not self._adopting

    async def deliver(self, notice: Notice, whom: str) -> None:
        """Take a notice; waits while too many have not been started."""
        if whom == EVERYONE:
            starts, refused = self.mailboxes.admit_all(notice)
            await self._refuse(notice, refused)
            self._queue(notice, starts)
        elif (row := self._cohort.find_row(whom)) is not None:
            alone = np.array([row], dtype=np.int32)
            admission = self.mailboxes.admit_one(row, notice)
            if admission is Admission.REFUSED:
                await self._refuse(notice, alone)
            elif admission is Admission.STARTS:
                self._queue(notice, alone)
        await self._wait_room()

    async def wake(self, event: Event, received_s: float) -> None:
        """It is time: take those who are to be woken by the part's timer; waits as `deliver` does."""
        wakes, revision = self._context.wakes, event.revision
        assert wakes is not None
        for at_ns, _, rows in wakes.fire_again(revision):
            notice = Notice(revision, (event,), received_s, at_ns, None, is_wake=True)
            self._queue(notice, self.mailboxes.admit_wakes(rows, notice))
        woken = [woken.rows for woken in wakes.hear(event)]
        if woken:
            # One notice for all of them; the time of each is its own.
            notice = Notice(revision, (event,), received_s, None, None, is_wake=True)
            self._queue(notice, self.mailboxes.admit_wakes(np.concatenate(woken), notice))
        await self._wait_room()

    async def run(self) -> None:
        """Start and answer turns until cancelled."""
        while True:
            await self._start_some()
            self._due.extend(join_alike(self._thinking.take_due(self._context.clock.now_s())))
            while self._due:
                await self._frames.answer(self._take_pack())
            if self._may_start:
                await asyncio.sleep(0)
            else:
                await self._sleep()

    async def stop(self) -> None:
        """End what thinks as cancelled, unsent, so that it can be taken up again; `run` must have ended."""
        self._is_stopping = True
        self._frames.stop()
        for thinkers in (*self._due, *self._thinking.take_all()):
            await self._frames.close(thinkers, STOPPED)

    def statistics(self) -> TurnsStatistics:
        """How full the group is."""
        waiting = int(self.mailboxes.waiting.sum())
        ended = self._context.records.count_ended()
        return TurnsStatistics(len(self._cohort), len(self._starts), self._running, waiting, ended)

    async def interview(self, agent_id: str, question: InterviewQuestion) -> dict[str, Any]:
        """What an agent is: it has no opinions. Raises NoAgentError."""
        profile = self.find_profile(agent_id)
        if profile is None:
            raise NoAgentError(agent_id)
        return interview_rule(self._context, self._agents, agent_id, profile)

    async def tell(self, agent_id: str, _text: str) -> None:
        """Agents that decide by a rule remember nothing. Raises NoAgentError, NoMemoryError."""
        raise NoAgentError(agent_id) if self.find_profile(agent_id) is None else NoMemoryError(self._context.group.name)

    def find_profile(self, agent_id: str) -> Mapping[str, Any] | None:
        """Attributes of an agent; None if it does not live here."""
        row = self._cohort.search_row(agent_id)
        return None if row is None else self._cohort.read_profile(row)

    async def _sleep(self) -> None:
        """Until something starts or somebody is done; at most one waking a linger, so that frames fill."""
        self._wake.clear()
        timer = None
        if (due_s := self._thinking.next_due_s) != NEVER_S:
            delay_s = max(self._linger_s, due_s - self._context.clock.now_s())
            timer = asyncio.get_running_loop().call_later(delay_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def _wait_room(self) -> None:
        if len(self._starts) >= self._context.notices_waiting_max:
            self._room.clear()
            await self._room.wait()

    def _queue(self, notice: Notice, rows: Rows) -> None:
        if len(rows) and not self._is_stopping:
            self._starts.append((notice, rows, self.mailboxes.turns[rows]))
            self._wake.set()

    @property
    def _may_start(self) -> bool:
        """Whether somebody waits to start, and there is room for a piece worth starting."""
        if not self._starts:
            return False
        return self._running_max - self._running >= min(self._refill_rows, len(self._starts[0][1]))

    async def _start_some(self) -> None:
        """Let at most one step's rows begin to think, as far as there is room, but those who took this turn before."""
        if not self._may_start:
            return
        latency = self._latency
        step_rows = START_ROWS if isinstance(latency, FixedLatency) else START_ROWS_DRAWN
        rows_max = min(step_rows, self._running_max - self._running)
        notice, rows, turns = self._starts.popleft()
        if len(rows) > rows_max:
            self._starts.appendleft((notice, rows[rows_max:], turns[rows_max:]))
            rows, turns = rows[:rows_max], turns[:rows_max]
        if len(self._starts) < self._context.notices_waiting_max:
            self._room.set()
        self._running += len(rows)
        if self._context.history is not None:
            rows, turns = await self._adopt(self._context.history, notice, rows, turns)
        delays_ms: Any
        if isinstance(latency, FixedLatency):
            delays_ms = float(latency.ms)
        else:
            ids = self._cohort.select_ids(rows).to_pylist()
            delays_ms = draw_delays_ms(latency, self._context.group.seed, ids, turns.tolist())
        self._thinking.add(notice, self._context.clock.now_s(), rows, turns, delays_ms)

    def _take_pack(self) -> Thinkers:
        """As many of those who are due, and of one notice, as a frame holds."""
        first = self._due.popleft()
        if len(first) > self._pack_rows:
            self._due.appendleft(first.select(slice(self._pack_rows, None)))
        return first.select(slice(0, self._pack_rows))

    async def _adopt(self, history: History, notice: Notice, rows: Rows, turns: Numbers) -> tuple[Rows, Numbers]:
        """Record those who took their turn before, as it was; returns the others."""
        ask, ids = notice.ask, self._cohort.select_ids(rows).to_pylist()
        known = history.find_all(ids, notice.revision)
        if notice.is_wake and self._wakes is not None:
            known = self._wakes.list_done(known)
        elif ask is None:
            return rows, turns
        if not known:
            return rows, turns
        pack = Thinkers.begun(notice, self._context.clock.now_s(), rows, turns)
        self._adopting += 1
        try:
            if ask is None:
                assert self._wakes is not None
                await self._wakes.adopt(pack.select(list(known)), list(known.values()))
            else:
                for alike in group_done(ask, ids, known):
                    turns_alike, revisions = pack.select(alike.places), np.array(alike.revisions)
                    await self._frames.close(turns_alike, alike.end, alike.values, revisions)
                self._release(pack.select(list(known)))
        finally:
            self._adopting -= 1
        left = [place for place in range(len(ids)) if place not in known]
        return rows[left], turns[left]

    async def _refuse(self, notice: Notice, rows: Rows) -> None:
        if len(rows):
            now_s = self._context.clock.now_s()
            turns = self.mailboxes.turns[rows]
            await self._frames.close(Thinkers.begun(notice, now_s, rows, turns), MAILBOX_FULL)

    def _release(self, pack: Thinkers) -> None:
        self._running -= len(pack)
        self.mailboxes.progress.end(pack.notice.revision, len(pack))
        for notice, chosen in self.mailboxes.release_many(pack.rows):
            self._queue(notice, chosen)
        if self._may_start:
            self._wake.set()
