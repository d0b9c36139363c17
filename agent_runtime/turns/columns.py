"""Turns of rule agents, many at a time: the same stages as single turns, in columns.

notice ─► mailboxes ─► room ─► thinking ─► decide_many ─► validation ─► one frame ─► outcomes ─► records
              ▲          └ eight bytes a row that waits for it                                │
              └──────────────────── whoever has another notice ◄──────────────────────────────┘
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ecumene.client import EcumeneError, FrameResult
from ecumene.client.records import TurnStatus

from agent_runtime.actions.settlement import ADOPTED, Settled, judge_failure, read_adopted, read_report
from agent_runtime.agents.agent import RuleAgents
from agent_runtime.agents.cohort import Cohort, Rows
from agent_runtime.llm.latency import FixedLatency
from agent_runtime.model.actions import REPORT, Outcome
from agent_runtime.model.notices import EVERYONE, Ask, Notice
from agent_runtime.ownership.history import DoneTurn, History
from agent_runtime.recording import RecordingError
from agent_runtime.turns.deciding import Failures, all_numbers, decide
from agent_runtime.turns.desk import Desk
from agent_runtime.turns.ends import (
    MAILBOX_FULL,
    MUTED,
    OK,
    STOPPED,
    UNANSWERED,
    TurnEnd,
    end_by_incident,
    make_no_answer,
)
from agent_runtime.turns.interviews import InterviewQuestion, NoAgentError, interview_rule
from agent_runtime.turns.mailboxes import Admission, Mailboxes, Numbers
from agent_runtime.turns.sitting import Sitting
from agent_runtime.turns.statistics import TurnsStatistics
from agent_runtime.turns.thinking import NEVER, Thinkers, ThinkingRows, draw_delays_ms, join_alike

# Rows that start in one step of the loop: an array operation costs little, a draw an agent some microseconds.
START_ROWS = 65_536
START_ROWS_DRAWN = 4_096
# Turns that end make room for others in pieces of at least this share of all, so that frames stay full.
REFILL_SHARE = 16


class ColumnTurns:
    """All turns of the RuleAgents of one part. At most `turns_in_flight_max` run at a time."""

    def __init__(
        self,
        desk: Desk,
        cohort: Cohort,
        agents: RuleAgents,
        pack_rows: int,
        linger_s: float,
        turns: Numbers | None = None,
    ) -> None:
        """`turns`: those that the agents have had before."""
        self._desk = desk
        self._cohort = cohort
        self._agents = agents
        self._pack_rows = pack_rows
        self._linger_s = linger_s
        self._latency = desk.spec.thinking.distribution()
        self.mailboxes = Mailboxes(len(cohort), desk.spec.mailbox_max, turns)
        self._starts: deque[tuple[Notice, Rows, Numbers]] = deque()
        self._running = 0
        """Rows between their start and their release."""
        self._running_max = desk.spec.turns_in_flight_max
        self._refill_rows = max(1, min(pack_rows, self._running_max // REFILL_SHARE))
        self._thinking = ThinkingRows()
        self._due: deque[Thinkers] = deque()
        """Those who have thought and wait to be answered; empty but while answers are held up."""
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._is_stopping = False
        self._sitting: set[asyncio.Task[None]] = set()
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
        if len(self._starts) >= self._desk.notices_waiting_max:
            self._room.clear()
            await self._room.wait()

    async def run(self) -> None:
        """Start and answer turns until cancelled."""
        while True:
            await self._start_some()
            self._due.extend(join_alike(self._thinking.take_due(self._desk.clock.now_s())))
            while self._due:
                await self._answer(self._take_pack())
            if self._may_start:
                await asyncio.sleep(0)
            else:
                await self._sleep()

    async def stop(self) -> None:
        """End what thinks as cancelled, unsent, so that it can be taken up again; `run` must have ended."""
        self._is_stopping = True
        for task in self._sitting:
            task.cancel()
        for thinkers in (*self._due, *self._thinking.take_all()):
            await self._close(thinkers, STOPPED)

    def statistics(self) -> TurnsStatistics:
        """How full the group is."""
        waiting = int(self.mailboxes.waiting.sum())
        ended = self._desk.records.count_ended()
        return TurnsStatistics(len(self._cohort), len(self._starts), self._running, waiting, ended)

    async def interview(self, agent_id: str, question: InterviewQuestion) -> dict[str, Any]:
        """What an agent is: it has no opinions. Raises NoAgentError."""
        profile = self.find_profile(agent_id)
        if profile is None:
            raise NoAgentError(agent_id)
        return interview_rule(self._desk, self._agents, agent_id, profile)

    def find_profile(self, agent_id: str) -> Mapping[str, Any] | None:
        """Attributes of an agent; None if it does not live here."""
        row = self._cohort.search_row(agent_id)
        return None if row is None else self._cohort.read_profile(row)

    async def _sleep(self) -> None:
        """Until something starts or somebody is done; at most one waking a linger, so that frames fill."""
        self._wake.clear()
        timer = None
        if (due_s := self._thinking.next_due_s) != NEVER:
            delay_s = max(self._linger_s, due_s - self._desk.clock.now_s())
            timer = asyncio.get_running_loop().call_later(delay_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

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
        if len(self._starts) < self._desk.notices_waiting_max:
            self._room.set()
        self._running += len(rows)
        if self._desk.history is not None:
            rows, turns = await self._adopt(self._desk.history, notice, rows, turns)
        delays_ms: Any
        if isinstance(latency, FixedLatency):
            delays_ms = float(latency.ms)
        else:
            ids = self._cohort.select_ids(rows).to_pylist()
            delays_ms = draw_delays_ms(latency, self._desk.group.seed, ids, turns.tolist())
        self._thinking.add(notice, self._desk.clock.now_s(), rows, turns, delays_ms)

    def _take_pack(self) -> Thinkers:
        """As many of those who are due, and of one notice, as a frame holds."""
        first = self._due.popleft()
        if len(first) > self._pack_rows:
            self._due.appendleft(first.select(slice(self._pack_rows, None)))
        return first.select(slice(0, self._pack_rows))

    async def _answer(self, pack: Thinkers) -> None:
        """Decide for agents that have thought, and send what they decided."""
        keys: list[str] = self._cohort.select_ids(pack.rows).to_pylist()
        unsent = set(range(len(keys)))
        apart: set[int] = set()
        try:
            values, failures = await decide(self._desk, self._agents, keys, pack.notice)
            by_end: dict[TurnEnd, list[int]] = {}
            if not self._desk.presence.is_plain:
                self._part_with(pack, keys, values, failures, apart)
                unsent -= apart
            for place in range(len(keys)):
                if place in apart:
                    continue
                by_end.setdefault(failures.get(place, OK), []).append(place)
            for end, places in by_end.items():
                acted = end.status.acted
                told = [values[place] for place in places] if acted else [make_no_answer(end)] * len(places)
                await self._send(pack.select(places), [keys[place] for place in places], told, end)
                unsent.difference_update(places)
        except asyncio.CancelledError:
            await self._close(pack.select(sorted(unsent - apart)), STOPPED)
            raise
        except RecordingError:
            raise
        except Exception as error:  # noqa: BLE001 - the turn edge: what ends these turns ends no others
            left = sorted(unsent - apart)
            await self._break_off(pack.select(left), [keys[place] for place in left], error)

    async def _break_off(self, pack: Thinkers, keys: list[str], defect: Exception) -> None:
        """End turns as `error` that something outside agents' code has ended, and tell the gate if that can be."""
        end = end_by_incident(self._desk.incidents, f"turns of {len(keys)} agents of {self._desk.group.name}", defect)
        await self._send(pack, keys, [make_no_answer(end)] * len(keys), end)

    def _part_with(
        self, pack: Thinkers, keys: list[str], values: list[Any], failures: Failures, apart: set[int]
    ) -> None:
        """Muted agents get their end; who is seated goes on apart, and its place into `apart`."""
        presence = self._desk.presence
        for place, key in enumerate(keys):
            if key in presence.muted:
                failures[place] = MUTED
            elif presence.is_seated(key):
                sitting = Sitting(self._desk, pack.select([place]), key, values[place], failures.get(place, OK))
                task = self._desk.tasks.start(self._sit(sitting), f"seat of {key}")
                self._sitting.add(task)
                task.add_done_callback(self._sitting.discard)
                apart.add(place)

    async def _sit(self, sitting: Sitting) -> None:
        """One turn of an agent in whose place a person sits."""
        try:
            end, value = await sitting.decide()
        except asyncio.CancelledError:
            await self._close(sitting.pack, STOPPED)
            raise
        except Exception as error:  # noqa: BLE001 - the turn edge: a person's decision ends no other turn
            await self._break_off(sitting.pack, [sitting.key], error)
            return
        told = value if end.status.acted else make_no_answer(end)
        await self._send(sitting.pack, [sitting.key], [told], end)
        sitting.tell_end(end)

    async def _send(self, pack: Thinkers, keys: list[str], values: list[Any], end: TurnEnd) -> None:
        """Put one frame on its way; what comes of it is another task's, so that frames overlap."""
        ask = pack.notice.ask
        if ask is None:
            await self._close_and_release(pack, end)
            return
        try:
            outbox, notice = self._desk.outbox, pack.notice
            answer = await outbox.submit(ask.path, ask.generation, notice.revision, keys, values, notice.event.id)
        except EcumeneError as error:
            await self._close_and_release(pack, TurnEnd(*judge_failure(error)))
            return
        except Exception as error:  # noqa: BLE001 - the turn edge: what no frame can hold ends the turns of one
            where = f"a frame of {len(keys)} agents of {self._desk.group.name}"
            await self._close_and_release(pack, end_by_incident(self._desk.incidents, where, error))
            return
        self._desk.tasks.start(self._settle(pack, keys, values, end, ask, answer), "column settle")

    async def _settle(
        self,
        pack: Thinkers,
        keys: list[str],
        values: list[Any],
        end: TurnEnd,
        ask: Ask,
        answer: asyncio.Future[FrameResult],
    ) -> None:
        """Record what became of a frame, and free its agents for their next notice."""
        try:
            settled = await self._desk.outbox.settle(answer)
        except asyncio.CancelledError:
            # The ops may have taken effect; whoever takes these turns again then adopts them.
            await self._close(pack, UNANSWERED)
            raise
        except EcumeneError as error:
            await self._close_and_release(pack, TurnEnd(*judge_failure(error)))
            return
        except Exception as error:  # noqa: BLE001 - the turn edge, as above
            where = f"the answer of {len(keys)} agents of {self._desk.group.name}"
            await self._close_and_release(pack, end_by_incident(self._desk.incidents, where, error))
            return
        if not settled.others:
            await self._close(pack, end, values, settled.revisions)
        else:
            await self._close_apart(pack, keys, values, end, ask, settled)
        self._release(pack)

    async def _close_apart(
        self, pack: Thinkers, keys: list[str], values: list[Any], end: TurnEnd, ask: Ask, settled: Settled
    ) -> None:
        """Record a frame of which some ops failed, or met the outcome of an earlier turn."""
        plain = [place for place in range(len(keys)) if place not in settled.others]
        await self._close(pack.select(plain), end, [values[place] for place in plain], settled.revisions[plain])
        for place, outcome in settled.others.items():
            ended, value = await self._judge(ask, keys[place], values[place], end, outcome)
            known = None if outcome.revision is None else np.array([outcome.revision])
            await self._close(pack.select([place]), ended, [value], known)

    async def _judge(self, ask: Ask, key: str, value: Any, end: TurnEnd, outcome: Outcome) -> tuple[TurnEnd, Any]:
        """How a turn ended whose op was not simply done, and the value that stands for it."""
        if outcome.error is not None:
            failed = TurnEnd(*judge_failure(outcome.error, is_taken_over=self._desk.is_taken_over))
            return (failed if end.status.acted else TurnEnd(end.status, f"{end.reason}; {failed.reason}")), value
        if outcome.duplicate:
            status, stored = await read_adopted(self._desk.world, ask.path, key)
            return TurnEnd(status, ADOPTED), stored
        return end, value

    async def _adopt(self, history: History, notice: Notice, rows: Rows, turns: Numbers) -> tuple[Rows, Numbers]:
        """Record those who took their turn before, as it was; returns the others."""
        ask, ids = notice.ask, self._cohort.select_ids(rows).to_pylist()
        known = history.find_all(ids, notice.revision)
        if not known or ask is None:
            return rows, turns
        self._adopting += 1
        try:
            await self._adopt_known(notice, ask, rows, turns, ids, known)
        finally:
            self._adopting -= 1
        left = [place for place in range(len(ids)) if place not in known]
        return rows[left], turns[left]

    async def _adopt_known(
        self, notice: Notice, ask: Ask, rows: Rows, turns: Numbers, ids: list[str], known: Mapping[int, DoneTurn]
    ) -> None:
        now_s = self._desk.clock.now_s()
        pack = Thinkers.begun(notice, now_s, rows, turns)
        alike: dict[tuple[TurnStatus, bool], list[tuple[int, Any, int]]] = {}
        for place, done in known.items():
            report = done.find_report(ask.path, ids[place])
            value, revision = (None, 0) if report is None else (report.value, report.revision)
            alike.setdefault((read_report(value)[0], all_numbers([value])), []).append((place, value, revision))
        for (status, _), reports in alike.items():
            places, values, revisions = (list(column) for column in zip(*reports, strict=True))
            await self._close(pack.select(places), TurnEnd(status, ADOPTED), values, np.array(revisions))
        self._release(pack.select(list(known)))

    async def _refuse(self, notice: Notice, rows: Rows) -> None:
        if len(rows):
            now_s = self._desk.clock.now_s()
            turns = self.mailboxes.turns[rows]
            await self._close(Thinkers.begun(notice, now_s, rows, turns), MAILBOX_FULL)

    async def _close_and_release(self, pack: Thinkers, end: TurnEnd) -> None:
        await self._close(pack, end)
        self._release(pack)

    async def _close(
        self, pack: Thinkers, end: TurnEnd, values: Sequence[Any] | None = None, revisions: Any = None
    ) -> None:
        """Record turns that ended alike; a report of numbers is recorded as their action."""
        acted = values is not None and len(values) > 0 and all_numbers(values[:1])
        await self._desk.records.close_many(
            self._desk.group.name,
            pack.notice,
            self._cohort.select_ids(pack.rows),
            pack.turns,
            pack.started_s,
            end,
            action=REPORT if acted else None,
            values=values if acted else None,
            revisions=revisions,
        )

    def _release(self, pack: Thinkers) -> None:
        self._running -= len(pack)
        self.mailboxes.progress.end(pack.notice.revision, len(pack))
        for notice, chosen in self.mailboxes.release_many(pack.rows):
            self._queue(notice, chosen)
        if self._may_start:
            self._wake.set()
