"""The edge around agents' code: whatever happens in a turn, it ends in one status, and in nobody else's turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ecumene.client import EcumeneError, GateClosedError
from ecumene.client.records import TurnStatus

from agent_runtime.actions.settlement import ADOPTED, judge_failure, read_adopted, read_report
from agent_runtime.agents.agent import Agent
from agent_runtime.llm import ModelError
from agent_runtime.model.actions import NO_ANSWER, REPORT, Action, Outcome
from agent_runtime.model.errors import ActionRefusedError, BudgetExceededError
from agent_runtime.ownership.history import DoneTurn
from agent_runtime.turns.desk import Desk
from agent_runtime.turns.ends import (
    NOTHING_REPORTED,
    OK,
    STOPPED,
    UNANSWERED,
    describe_failure,
    make_no_answer,
)
from agent_runtime.turns.ledger import TurnEnd
from agent_runtime.turns.remembering import describe_agent, recall_turn, remember_turn
from agent_runtime.turns.turn import Turn

logger = logging.getLogger("ecumene.runtime")

TRACEBACKS_MAX = 20
ADOPTED_ACTION = "adopted"
"""What an earlier turn did and its name is not known of."""
MakeAgent = Callable[[str, int], Agent]
"""Makes the agent of an id and a row."""


class TurnEdge:
    """Takes the turns of one group: runs the agent, commits what it decided, records what came of it."""

    def __init__(self, desk: Desk, agent_class: type[Agent]) -> None:
        self._desk = desk
        self.agent_class = agent_class
        self._tracebacks = 0

    async def take_turn(self, turn: Turn, agent: Agent | None, make_agent: MakeAgent, row: int) -> bool:
        """One turn, from the notice to its record. An agent that is not there yet is made within its turn.

        False if it was stopped before it decided, so that it is still to be taken. Raises only what ends the worker:
        that it is cancelled, or that nothing can be recorded any more.
        """
        end = await self._think(turn, agent, make_agent, row)
        turn.is_committing = True
        try:
            await self._finish(turn, end)
        except asyncio.CancelledError:
            # The op may have taken effect; whoever takes this turn again then adopts it.
            await self._record(turn, UNANSWERED, (), None)
            raise
        return end is not STOPPED

    async def adopt_turn(self, turn: Turn, done: DoneTurn) -> None:
        """Record a turn that was taken before as it was."""
        revision = done.effects[0].revision if done.effects else None
        if done.state is not None:
            end = recall_turn(turn, done.state)
            await self._record(turn, end, turn.actions, revision)
            return
        ask = turn.notice.ask
        report = None if ask is None else done.find_report(ask.path, turn.agent_id)
        status, is_answer = read_report(None if report is None else report.value)
        effects = [effect for effect in done.effects if is_answer or effect is not report]
        actions = [
            Action(REPORT if effect is report else ADOPTED_ACTION, effect.path, effect.key, effect.value)
            for effect in effects
        ]
        await self._record(turn, TurnEnd(status, ADOPTED), actions, revision)

    async def close_unstarted(self, turn: Turn, end: TurnEnd) -> None:
        """Record a turn that never ran. The world is told nothing."""
        await self._record(turn, end, (), None)

    async def _think(self, turn: Turn, agent: Agent | None, make_agent: MakeAgent, row: int) -> TurnEnd:
        """Run the agent's code; returns how that ended, with the actions that stand in the turn."""
        try:
            if agent is None:
                agent = make_agent(turn.agent_id, row)
            turn.memory, turn.profile = agent.memory, agent.profile
            await agent.on_event(turn.notice.event, turn)
            if turn.is_timed_out:
                # It went on although it was cancelled.
                raise self._make_timeout()
            await self._check_places(turn)
            return OK
        except asyncio.CancelledError:
            if not (turn.is_timed_out or turn.is_stopped):
                raise
            self._take_back_cancel()
            if turn.is_stopped:
                turn.actions.clear()
                return STOPPED
            return await self._recover(turn, agent, self._make_timeout())
        except Exception as error:  # noqa: BLE001 - the turn edge: agents' code may raise anything
            return await self._recover(turn, agent, error)

    async def _recover(self, turn: Turn, agent: Agent | None, failure: Exception) -> TurnEnd:
        """Let the agent fall back, if it can; otherwise the failure stands."""
        end = TurnEnd(find_status(failure), describe_failure(failure))
        if end.status is TurnStatus.ERROR:
            self._log(turn, failure)
        turn.actions.clear()
        if agent is None:
            return end
        try:
            if not agent.fall_back(turn.notice.event, turn, failure):
                turn.actions.clear()
                return end
            await self._check_places(turn)
        except Exception as error:  # noqa: BLE001 - the turn edge: agents' code may raise anything
            self._log(turn, error)
            turn.actions.clear()
            return TurnEnd(end.status, f"{end.reason}; its fallback failed: {describe_failure(error)}")
        return TurnEnd(TurnStatus.FALLBACK, end.reason)

    async def _finish(self, turn: Turn, end: TurnEnd) -> None:
        """Send all effects as one op, and record the turn."""
        ask = turn.notice.ask
        actions: Sequence[Action] = turn.actions
        told = actions
        reports = ask is not None and any(action.path == ask.path and action.key == turn.agent_id for action in actions)
        if ask is not None and not reports and end is not STOPPED:
            # The gate waits for this agent: without an answer it is told so, beside whatever it did do.
            end = NOTHING_REPORTED if end is OK else end
            no_answer = Action(NO_ANSWER, ask.path, turn.agent_id, make_no_answer(end), gate_generation=ask.generation)
            told = [*actions, no_answer]
        states = self._desk.states
        remembered = None
        if states is not None and turn.memory is not None and end is not STOPPED:
            remembered = remember_turn(states.path, turn, end, actions)
        if not told and remembered is None:
            await self._record(turn, end, actions, None)
            return
        notice = turn.notice
        outcome = await self._desk.outbox.send(turn.agent_id, notice.revision, told, notice.event.id, remembered)
        end, actions = await self._judge(turn, end, actions, outcome)
        if remembered is not None and outcome.error is not None and not isinstance(outcome.error, GateClosedError):
            await self._keep_failed(turn, end, actions)
        await self._record(turn, end, actions, outcome.revision)

    async def _keep_failed(self, turn: Turn, end: TurnEnd, actions: Sequence[Action]) -> None:
        """The turn's op had no effect; what the agent remembers of the turn is kept all the same."""
        assert self._desk.states is not None
        try:
            await self._desk.states.keep(turn.agent_id, describe_agent(turn, end, actions))
        except EcumeneError as error:
            self._log(turn, error)

    async def _judge(
        self, turn: Turn, end: TurnEnd, actions: Sequence[Action], outcome: Outcome
    ) -> tuple[TurnEnd, Sequence[Action]]:
        """What the world's answer makes of a turn."""
        if outcome.error is not None:
            failed = TurnEnd(*judge_failure(outcome.error, is_taken_over=self._desk.history is not None))
            if end.status.acted:
                return failed, actions
            return TurnEnd(end.status, f"{end.reason}; {failed.reason}"), actions
        if not outcome.duplicate:
            return end, actions
        ask = turn.notice.ask
        if ask is None or len(actions) > 1:
            return TurnEnd(end.status, ADOPTED), ()
        status, value = await read_adopted(self._desk.world, ask.path, turn.agent_id)
        if read_report(value)[1]:
            return TurnEnd(status, ADOPTED), [Action(REPORT, ask.path, turn.agent_id, value)]
        return TurnEnd(status, ADOPTED), ()

    async def _check_places(self, turn: Turn) -> None:
        for action in turn.actions:
            if not self._desk.places.knows(action.path):
                await self._desk.places.check(action.name, action.path)

    async def _record(self, turn: Turn, end: TurnEnd, actions: Sequence[Action], revision: int | None) -> None:
        # A turn that asked nobody has no model; one that has no profile yet may belong to any of a mix.
        model = self._desk.find_model(turn) if turn.calls else None
        name = model.settings.model if model is not None else None
        await self._desk.ledger.close_turn(self._desk.group.name, turn, name, end, actions, revision)

    def _log(self, turn: Turn, error: Exception) -> None:
        self._tracebacks += 1
        if self._tracebacks <= TRACEBACKS_MAX:
            logger.warning("turn %s of %s failed", turn.number, turn.agent_id, exc_info=error)

    def _make_timeout(self) -> TimeoutError:
        return TimeoutError(f"no decision within {self._desk.spec.turn_timeout_s:g} s")

    @staticmethod
    def _take_back_cancel() -> None:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()


def find_status(failure: Exception) -> TurnStatus:
    """The status of a turn that a failure ended."""
    if isinstance(failure, ModelError):
        return TurnStatus(failure.status)
    if isinstance(failure, BudgetExceededError):
        return TurnStatus.BUDGET
    if isinstance(failure, ActionRefusedError):
        return TurnStatus.ERROR
    return TurnStatus.TIMEOUT if isinstance(failure, TimeoutError) else TurnStatus.ERROR
