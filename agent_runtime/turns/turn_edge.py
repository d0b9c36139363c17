"""The edge around agents' code: whatever happens in a turn, it ends in one status, and in nobody else's turn.

    on_event ──► actions tested ──► one op ──► ok
        │ fails        │ refused       │ refused by the world, without effect
        │              └──────┬────────┘
        │                     ▼ once: on_refused, with the reason ──► tested ──► one op ──► ok, flag `corrected`
        └──────────────► fall_back ──► tested ──► one op ──► fallback
                               └ none, or refused: the failure's own status

Each op that follows a refused one has an identity of its own, `<agent>/2` and so on, under the same number: the world
keeps the refusal under the first, for ever, so that a turn that is taken again after a crash takes the same way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ecumene.client import EcumeneError, GateClosedError
from ecumene.client.records import TurnStatus

from agent_runtime.actions.settlement import ADOPTED, is_answerable, judge_failure, read_adopted, read_report
from agent_runtime.actions.validation import check_action
from agent_runtime.agents.agent import Agent
from agent_runtime.llm import ModelError
from agent_runtime.model.actions import NO_ANSWER, REPORT, Action, Outcome
from agent_runtime.model.errors import ActionRefusedError, BudgetExceededError
from agent_runtime.ownership.history import DoneTurn
from agent_runtime.recording import RecordingError
from agent_runtime.turns.desk import Desk
from agent_runtime.turns.ends import (
    MUTED,
    NOTHING_REPORTED,
    OK,
    STOPPED,
    UNANSWERED,
    describe_failure,
    end_by_incident,
    make_no_answer,
    name_exit,
)
from agent_runtime.turns.ledger import TurnEnd
from agent_runtime.turns.presence import SEATED, Decision
from agent_runtime.turns.remembering import describe_agent, recall_turn, remember_turn
from agent_runtime.turns.turn import Turn

logger = logging.getLogger("ecumene.runtime")

TRACEBACKS_MAX = 20
ADOPTED_ACTION = "adopted"
"""What an earlier turn did and its name is not known of."""
CORRECTED = "corrected"
"""Flag of a turn whose agent was told once that what it had decided cannot be done."""
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
        turn.agent = agent
        end = await self._think(turn, self._decide, make_agent, row)
        while True:
            turn.is_committing = True
            try:
                refusal = await self._finish(turn, end)
            except asyncio.CancelledError:
                # The op may have taken effect; whoever takes this turn again then adopts it.
                await self._record(turn, UNANSWERED, (), None)
                raise
            if refusal is None:
                return end is not STOPPED
            turn.refusals += 1
            turn.is_committing = False
            end = await self._reconsider(turn, end, refusal)

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

    async def break_off(self, turn: Turn, defect: Exception) -> None:
        """End a turn as `error` that something outside agents' code has ended; its agent remembers nothing of it.

        The gate that waits for it is told that no answer comes, if that can be told. Raises RecordingError.
        """
        end = end_by_incident(self._desk.incidents, f"turn {turn.number} of {turn.agent_id}", defect)
        turn.is_committing = True
        turn.actions.clear()
        turn.memory, turn.flags = None, None
        try:
            await self._finish(turn, end)
        except RecordingError:
            raise
        except Exception as error:  # noqa: BLE001 - the turn edge: it is ended all the same
            self._desk.incidents.note(f"the end of turn {turn.number} of {turn.agent_id}", error)
            await self._desk.ledger.close_turn(self._desk.group.name, turn, None, end, (), None)

    async def close_unstarted(self, turn: Turn, end: TurnEnd) -> None:
        """Record a turn that never ran. The world is told nothing."""
        await self._record(turn, end, (), None)

    async def _think(self, turn: Turn, decide: Callable[..., Awaitable[TurnEnd]], *arguments: Any) -> TurnEnd:
        """Run agents' code; returns how that ended, with the actions that stand in the turn."""
        try:
            end = await decide(turn, *arguments)
            if turn.is_timed_out:
                # It went on although it was cancelled.
                raise self._make_timeout()
            return end
        except asyncio.CancelledError as cancel:
            is_ours = self._take_back_cancel()
            if turn.is_stopped:
                turn.actions.clear()
                return STOPPED
            if turn.is_timed_out:
                return await self._recover(turn, self._make_timeout())
            if is_ours:
                raise
            return await self._recover(turn, name_exit(cancel))
        except GeneratorExit:  # the loop is gone
            raise
        except BaseException as error:  # noqa: BLE001 - the turn edge: agents' code may raise anything
            return await self._recover(turn, name_exit(error))

    def _decide(self, turn: Turn, make_agent: MakeAgent, row: int) -> Awaitable[TurnEnd]:
        """What decides the turn: no coroutine of its own, as most of them wait in it for long."""
        presence = self._desk.presence
        if not presence.is_plain and turn.agent_id in presence.muted:
            return self._pass_over(MUTED)
        if turn.agent is None:
            turn.agent = make_agent(turn.agent_id, row)
        turn.memory, turn.profile = turn.agent.memory, turn.agent.profile
        if not presence.is_plain and presence.is_seated(turn.agent_id):
            return self._ask_person(turn, turn.agent)
        return self._ask_agent(turn, turn.agent)

    async def _pass_over(self, end: TurnEnd) -> TurnEnd:
        return end

    async def _ask_agent(self, turn: Turn, agent: Agent) -> TurnEnd:
        try:
            await agent.on_event(turn.notice.event, turn)
            await self._check(turn)
        except ActionRefusedError as refusal:
            return await self._correct(turn, refusal)
        return OK

    async def _ask_person(self, turn: Turn, agent: Agent) -> TurnEnd:
        """Let the person in the agent's seat decide, and the agent when the time is over. Raises as the agent does."""
        turn.is_seated = True
        turn.flag(SEATED)

        async def apply(decision: Decision) -> None:
            turn.actions.clear()
            for one in decision.actions:
                turn.act(one.name, one.path, one.key, one.value, change=one.change)
            await self._check(turn)
            for value in decision.report or ():
                turn.report(value)

        presence, notice = self._desk.presence, turn.notice
        missed = await presence.ask(turn.agent_id, turn.number, notice, apply, ActionRefusedError)
        if not missed:
            return OK
        turn.actions.clear()
        async with asyncio.timeout(self._desk.spec.turn_timeout_s):
            await self._ask_agent(turn, agent)
        return TurnEnd(TurnStatus.FALLBACK, missed)

    async def _correct(self, turn: Turn, refusal: ActionRefusedError) -> TurnEnd:
        """Tell the agent once why what it decided cannot be. Raises the refusal if it decides nothing else."""
        agent = turn.agent
        if agent is None or not turn.take_correction():
            raise refusal
        turn.actions.clear()
        turn.flag(CORRECTED)
        if not await agent.on_refused(turn.notice.event, turn, refusal):
            raise refusal
        await self._check(turn)
        return OK

    async def _reconsider(self, turn: Turn, end: TurnEnd, refusal: ActionRefusedError) -> TurnEnd:
        """The world refused what had passed all tests here."""
        for action in turn.actions:
            self._desk.places.forget(action.path)
        if end is OK:
            return await self._think(turn, self._correct, refusal)
        turn.actions.clear()
        return TurnEnd(TurnStatus.ERROR, f"{end.reason}; its fallback failed: {describe_failure(refusal)}")

    async def _recover(self, turn: Turn, failure: Exception) -> TurnEnd:
        """Let the agent fall back, if it can; otherwise the failure stands."""
        turn.is_committing = True  # the agent's code is over: neither a stop nor a time-out may cut this short
        end = TurnEnd(find_status(failure), describe_failure(failure))
        if end.status is TurnStatus.ERROR and not isinstance(failure, ActionRefusedError):
            self._log(turn, failure)
        turn.actions.clear()
        if turn.agent is None:
            return end
        try:
            if not turn.agent.fall_back(turn.notice.event, turn, failure):
                turn.actions.clear()
                return end
            await self._check(turn)
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - the turn edge, as above
            self._log(turn, error)
            turn.actions.clear()
            return TurnEnd(end.status, f"{end.reason}; its fallback failed: {describe_failure(error)}")
        return TurnEnd(TurnStatus.FALLBACK, end.reason)

    async def _finish(self, turn: Turn, end: TurnEnd) -> ActionRefusedError | None:
        """Send all effects as one op, and record the turn; returns a refusal instead, if the agent may decide again."""
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
            return None
        notice = turn.notice
        outcome = await self._desk.outbox.send(turn.producer, notice.revision, told, notice.event.id, remembered)
        if outcome.error is not None and actions and is_answerable(outcome.error):
            return ActionRefusedError(", ".join(dict.fromkeys(action.name for action in actions)), str(outcome.error))
        end, actions = await self._judge(turn, end, actions, outcome)
        if remembered is not None and outcome.error is not None and not isinstance(outcome.error, GateClosedError):
            await self._keep_failed(turn, end, actions)
        await self._record(turn, end, actions, outcome.revision)
        return None

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
            failed = TurnEnd(*judge_failure(outcome.error, is_taken_over=self._desk.is_taken_over))
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

    async def _check(self, turn: Turn) -> None:
        """Test the actions, as agents' code left them, against the world. Raises ActionRefusedError, EcumeneError."""
        places = self._desk.places
        for action in turn.actions:
            check_action(action)
            if not places.allows(action):
                await places.check(action)

    async def _record(self, turn: Turn, end: TurnEnd, actions: Sequence[Action], revision: int | None) -> None:
        # A turn that asked nobody has no model; one that has no profile yet may belong to any of a mix.
        model = self._desk.find_model(turn) if turn.calls else None
        name = model.settings.model if model is not None else None
        await self._desk.ledger.close_turn(self._desk.group.name, turn, name, end, actions, revision)
        if turn.is_seated:
            self._desk.presence.end(turn.agent_id, turn.number, end.status.value, end.reason)

    def _log(self, turn: Turn, error: BaseException) -> None:
        self._tracebacks += 1
        if self._tracebacks <= TRACEBACKS_MAX:
            logger.warning("turn %s of %s failed", turn.number, turn.agent_id, exc_info=error)

    def _make_timeout(self) -> TimeoutError:
        return TimeoutError(f"no decision within {self._desk.spec.turn_timeout_s:g} s")

    @staticmethod
    def _take_back_cancel() -> bool:
        """Whether the turn was cancelled from outside, which it is no more."""
        task = asyncio.current_task()
        assert task is not None
        is_cancelled = task.cancelling() > 0
        while task.cancelling():
            task.uncancel()
        return is_cancelled


def find_status(failure: Exception) -> TurnStatus:
    """The status of a turn that a failure ended."""
    if isinstance(failure, ModelError):
        return TurnStatus(failure.status)
    if isinstance(failure, BudgetExceededError):
        return TurnStatus.BUDGET
    if isinstance(failure, ActionRefusedError):
        return TurnStatus.ERROR
    return TurnStatus.TIMEOUT if isinstance(failure, TimeoutError) else TurnStatus.ERROR
