"""Turns of agents that are objects: one task a turn that runs, nothing but a row for the others.

notice ─► mailboxes ─► room for a turn ─► on_event ─► fall back? ─► validation ─► one op ─► record
              ▲                                                                              │
              └──────────────────────── the agent's next notice ◄────────────────────────────┘

Of a part that was taken over, an agent's state is read when it is first woken: it goes on with the memory that it had,
and turns that it has had already are recorded as they were, and not taken.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from ecumene.client import Event
from ecumene.client.records import TurnStatus

from agent_runtime.agents.agent import Agent
from agent_runtime.agents.cohort import Cohort, Rows, split_rows
from agent_runtime.agents.memory import ASKED, TOLD
from agent_runtime.model.notices import EVERYONE, Notice
from agent_runtime.model.slots import Slots
from agent_runtime.ownership.agent_states import AgentState
from agent_runtime.ownership.history import DoneTurn
from agent_runtime.recording import RecordingError
from agent_runtime.turns.ends import MAILBOX_FULL
from agent_runtime.turns.interviews import InterviewQuestion, NoAgentError, NoMemoryError, interview_agent
from agent_runtime.turns.mailboxes import Admission, Mailboxes, Numbers
from agent_runtime.turns.part_context import PartContext
from agent_runtime.turns.stalls import TURN_TASK
from agent_runtime.turns.statistics import TurnsStatistics
from agent_runtime.turns.turn import Turn
from agent_runtime.turns.turn_edge import TurnEdge

SWEEP_S = 0.25
STARTS_A_STEP = 256


class SingleTurns:
    """All turns of the Agents of one part. At most `turns_in_flight_max` run at a time."""

    def __init__(
        self, context: PartContext, cohort: Cohort, agent_class: type[Agent], turns: Numbers | None = None
    ) -> None:
        """`turns`: those that the agents have had before."""
        self._context = context
        self._cohort = cohort
        self._edge = TurnEdge(context, agent_class)
        self.mailboxes = Mailboxes(len(cohort), context.spec.mailbox_max, turns)
        self._starts: asyncio.Queue[tuple[Notice, Rows, Numbers]] = asyncio.Queue(context.notices_waiting_max)
        self._room = Slots(context.spec.turns_in_flight_max)
        # In the order of their starts: the first to time out stand in front.
        self._running: dict[int, tuple[asyncio.Task[None], Turn]] = {}
        self._agents: dict[int, Agent] = {}
        self._restored: dict[int, AgentState | None] = {}
        """What was found of an agent, until it is made; only of a part that was taken over."""
        self._is_stopping = False
        self._adopting = 0
        self._starting = 0
        """Turns of the notice at hand that have no task yet."""

    @property
    def is_caught_up(self) -> bool:
        """Whether no turn that was taken before is left to be recorded, of the notices that were delivered."""
        return self._starts.empty() and not self._starting and not self._adopting

    async def deliver(self, notice: Notice, whom: str) -> None:
        """Take a notice; waits while too many have not been started."""
        if whom == EVERYONE:
            starts, refused = self.mailboxes.admit_all(notice)
            for row in refused.tolist():
                await self._refuse(row, notice)
            if len(starts):
                await self._starts.put((notice, starts, self.mailboxes.turns[starts]))
        elif (row := self._cohort.find_row(whom)) is not None:
            admission = self.mailboxes.admit_one(row, notice)
            if admission is Admission.REFUSED:
                await self._refuse(row, notice)
            elif admission is Admission.STARTS:
                alone = np.array([row], dtype=np.int32)
                await self._starts.put((notice, alone, self.mailboxes.turns[alone]))

    async def wake(self, event: Event, received_s: float) -> None:
        """It is time: take those who are to be woken by the part's timer; waits as `deliver` does."""
        wakes, revision = self._context.wakes, event.revision
        assert wakes is not None
        for at_ns, why, rows in (*wakes.fire_again(revision), *wakes.hear(event)):
            notice = Notice(revision, (event,), received_s, at_ns, None, wakes=why, is_wake=True)
            starts = self.mailboxes.admit_wakes(rows, notice)
            if len(starts):
                await self._starts.put((notice, starts, self.mailboxes.turns[starts]))

    async def run(self) -> None:
        """Start turns, as room allows, until cancelled."""
        while True:
            notice, rows, numbers = await self._starts.get()
            self._starting = len(rows)
            for some, turns in zip(split_rows(rows, STARTS_A_STEP), split_rows(numbers, STARTS_A_STEP), strict=True):
                ids = self._cohort.select_ids(some).to_pylist()
                for row, number, agent_id in zip(some.tolist(), turns.tolist(), ids, strict=True):
                    await self._room.acquire()
                    turn = Turn(self._context, agent_id, number, notice, row)
                    self._context.tasks.start(self._live(row, turn), TURN_TASK + agent_id)
                    self._starting -= 1
                await asyncio.sleep(0)

    async def sweep(self) -> None:
        """End turns that think for longer than the group allows, until cancelled.

        Agents' code that takes no notice is cancelled again and again.
        """
        while True:
            await asyncio.sleep(SWEEP_S)
            too_old_s = self._context.clock.now_s() - self._context.spec.turn_timeout_s
            for task, turn in self._running.values():
                if turn.started_s > too_old_s:
                    break
                if not (turn.is_committing or turn.is_seated):
                    turn.is_timed_out = True
                    task.cancel()

    async def stop(self) -> None:
        """Cancel what thinks; what commits goes on. `run` must have ended."""
        self._is_stopping = True
        for task, turn in self._running.values():
            if not turn.is_committing and not turn.is_timed_out:
                turn.is_stopped = True
                task.cancel()

    def statistics(self) -> TurnsStatistics:
        """How full the group is."""
        mailed = int(self.mailboxes.waiting.sum())
        ended = self._context.records.count_ended()
        return TurnsStatistics(len(self._cohort), self._starts.qsize(), len(self._running), mailed, ended)

    async def _live(self, row: int, turn: Turn) -> None:
        """The turns of one agent, one at a time, until nothing waits for it."""
        task = asyncio.current_task()
        assert task is not None
        try:
            while not self._is_stopping:
                self._running[row] = (task, turn)
                try:
                    if not await self._take(row, turn):
                        return
                finally:
                    del self._running[row]
                self._end_wake(turn)
                self.mailboxes.progress.end(turn.revision)
                notice = self.mailboxes.release_one(row)
                if notice is None:
                    return
                turn = Turn(self._context, turn.agent_id, int(self.mailboxes.turns[row]), notice, row)
        finally:
            self._room.release()

    async def interview(self, agent_id: str, question: InterviewQuestion) -> dict[str, Any]:
        """Ask an agent, in a copy of its state. Raises AgentRuntimeError, EcumeneError."""
        row = self._cohort.search_row(agent_id)
        if row is None:
            raise NoAgentError(agent_id)
        agent = self._agents.get(row)
        if agent is None:
            # Nobody has woken it here: it is looked at as it would be, and not kept.
            agent = self._edge.agent_class(agent_id, self._cohort.read_profile(row), self._context.group)
            states = self._context.states
            if states is not None and self._context.history is not None:
                state = await states.read(agent_id)
                if state is not None:
                    agent.memory.load(state.memory)
        return await interview_agent(self._context, agent, question.text, question.schema, question.timeout_s)

    async def tell(self, agent_id: str, text: str) -> None:
        """Let an agent remember a text, unless it does; kept in the world when this returns.

        Raises NoAgentError, NoMemoryError, EcumeneError.
        """
        row, states = self._cohort.search_row(agent_id), self._context.states
        if row is None:
            raise NoAgentError(agent_id)
        if states is None:
            raise NoMemoryError(self._context.group.name)
        kept = await states.read(agent_id)
        agent = self._agents.get(row)
        if agent is None:
            if kept is not None:
                self._restored[row] = kept
            agent = self._make_agent(agent_id, row)
        told = text if text.startswith(ASKED) else f"{TOLD}{text}"
        if told not in agent.memory.window:
            agent.memory.remember(told)
        # Of no turn yet: no event has revision 0, so that it stands for none that was taken.
        state = kept or AgentState(0, 0, TurnStatus.OK, None, None, (), {}, {})
        await states.keep(agent_id, dataclasses.replace(state, memory=agent.memory.dump()))

    def find_profile(self, agent_id: str) -> Mapping[str, Any] | None:
        """Attributes of an agent; None if it does not live here."""
        row = self._cohort.search_row(agent_id)
        return None if row is None else self._cohort.read_profile(row)

    async def _take(self, row: int, turn: Turn) -> bool:
        """One turn, unless it was taken before, and whatever happens; False if somebody else has to take it again."""
        # One coroutine with its edge: each further one costs every agent that waits half a kilobyte.
        try:
            history = self._context.history
            if history is not None:
                if (done := history.find(turn.agent_id, turn.revision)) is not None:
                    await self._adopt(turn, done)
                    return True
                if self._context.states is not None and row not in self._agents and not await self._restore(row, turn):
                    return False
            return await self._edge.take_turn(turn, self._agents.get(row), self._make_agent, row)
        except RecordingError:
            raise
        except Exception as error:  # noqa: BLE001 - the turn edge: what ends a turn outside agents' code ends no other
            await self._edge.break_off(turn, error)
            return True

    async def _adopt(self, turn: Turn, done: DoneTurn) -> None:
        self._adopting += 1
        try:
            await self._edge.adopt_turn(turn, done)
        finally:
            self._adopting -= 1

    async def _restore(self, row: int, turn: Turn) -> bool:
        """Read what the agent was; False if everything was stopped meanwhile."""
        assert self._context.states is not None
        turn.is_committing = True  # neither a stop nor a time-out may cut this short
        self._restored[row] = await self._context.states.read(turn.agent_id)
        turn.is_committing = False
        return not self._is_stopping

    def _end_wake(self, turn: Turn) -> None:
        """What a turn asked for of being woken counts from now on."""
        if self._context.wakes is not None and (turn.notice.is_wake or turn.wishes):
            self._context.wakes.end(turn.row, turn.wishes or {}, turn.notice.is_wake)

    async def _refuse(self, row: int, notice: Notice) -> None:
        turn = Turn(self._context, self._cohort.read_id(row), int(self.mailboxes.turns[row]), notice, row)
        await self._edge.close_unstarted(turn, MAILBOX_FULL)

    def _make_agent(self, agent_id: str, row: int) -> Agent:
        agent = self._edge.agent_class(agent_id, self._cohort.read_profile(row), self._context.group)
        if (state := self._restored.pop(row, None)) is not None:
            agent.memory.load(state.memory)
        self._agents[row] = agent
        return agent
