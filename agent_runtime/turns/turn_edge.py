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
from collections.abc import Awaitable, Callable
from typing import Any

from ecumene.client.records import TurnStatus

from agent_runtime.actions.validation import check_action
from agent_runtime.agents.agent import Agent
from agent_runtime.model.errors import ActionRefusedError
from agent_runtime.ownership.history import DoneTurn
from agent_runtime.recording import RecordingError
from agent_runtime.turns.adopted_turns import read_done
from agent_runtime.turns.ends import (
    MUTED,
    OK,
    STOPPED,
    UNANSWERED,
    TurnEnd,
    describe_failure,
    describe_place,
    end_by_incident,
    find_status,
    name_exit,
)
from agent_runtime.turns.part_context import PartContext
from agent_runtime.turns.presence import SEATED, Decision
from agent_runtime.turns.turn import Turn
from agent_runtime.turns.turn_effects import TurnEffects

logger = logging.getLogger("ecumene.runtime")

TRACEBACKS_MAX = 20
CORRECTED = "corrected"
"""Flag of a turn whose agent was told once that what it had decided cannot be done."""
MakeAgent = Callable[[str, int], Agent]
"""Makes the agent of an id and a row."""


class TurnEdge:
    """Takes the turns of one group: runs the agent, commits what it decided, records what came of it."""

    def __init__(self, context: PartContext, agent_class: type[Agent]) -> None:
        self._context = context
        self.agent_class = agent_class
        self._tracebacks = 0
        self._effects = TurnEffects(context, self._log)

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
                refusal = await self._effects.commit(turn, end)
            except asyncio.CancelledError:
                # The op may have taken effect; whoever takes this turn again then adopts it.
                await self._effects.record(turn, UNANSWERED, (), None)
                raise
            if refusal is None:
                return end is not STOPPED
            turn.refusals += 1
            turn.is_committing = False
            end = await self._reconsider(turn, end, refusal)

    async def adopt_turn(self, turn: Turn, done: DoneTurn) -> None:
        """Record a turn that was taken before as it was."""
        end, actions = read_done(turn, done)
        await self._effects.record(turn, end, actions, done.effects[0].revision if done.effects else None)

    async def break_off(self, turn: Turn, defect: Exception) -> None:
        """End a turn as `error` that something outside agents' code has ended; its agent remembers nothing of it.

        The gate that waits for it is told that no answer comes, if that can be told. Raises RecordingError.
        """
        end = end_by_incident(self._context.incidents, f"turn {turn.number} of {turn.agent_id}", defect)
        turn.is_committing = True
        turn.actions.clear()
        turn.memory, turn.flags = None, None
        try:
            await self._effects.commit(turn, end)
        except RecordingError:
            raise
        except Exception as error:  # noqa: BLE001 - the turn edge: it is ended all the same
            self._context.incidents.note(f"the end of turn {turn.number} of {turn.agent_id}", error)
            await self._context.records.close_turn(self._context.group.name, turn, None, end, (), None)

    async def close_unstarted(self, turn: Turn, end: TurnEnd) -> None:
        """Record a turn that never ran. The world is told nothing."""
        await self._effects.record(turn, end, (), None)

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
        presence = self._context.presence
        is_muted = not presence.is_plain and turn.agent_id in presence.muted
        if is_muted and not turn.notice.is_wake:
            return self._pass_over(MUTED)
        if turn.agent is None:
            turn.agent = make_agent(turn.agent_id, row)
        if self._context.wakes is not None:
            turn.agent.plan(turn)
        if is_muted:
            return self._pass_over(MUTED)
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

        presence, notice = self._context.presence, turn.notice
        missed = await presence.ask(turn.agent_id, turn.number, notice, apply, ActionRefusedError)
        if not missed:
            return OK
        turn.actions.clear()
        async with asyncio.timeout(self._context.spec.turn_timeout_s):
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
            self._context.places.forget(action.path)
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
            if turn.agent is not None:
                place = describe_place(failure, type(turn.agent).__module__)
                end = TurnEnd(end.status, f"{end.reason}{place}")
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

    async def _check(self, turn: Turn) -> None:
        """Test the actions, as agents' code left them, against the world. Raises ActionRefusedError, EcumeneError."""
        places = self._context.places
        for action in turn.actions:
            check_action(action)
            if not places.allows(action):
                await places.check(action)

    def _log(self, turn: Turn, error: BaseException) -> None:
        self._tracebacks += 1
        if self._tracebacks <= TRACEBACKS_MAX:
            logger.warning("turn %s of %s failed", turn.number, turn.agent_id, exc_info=error)

    def _make_timeout(self) -> TimeoutError:
        return TimeoutError(f"no decision within {self._context.spec.turn_timeout_s:g} s")

    @staticmethod
    def _take_back_cancel() -> bool:
        """Whether the turn was cancelled from outside, which it is no more."""
        task = asyncio.current_task()
        assert task is not None
        is_cancelled = task.cancelling() > 0
        while task.cancelling():
            task.uncancel()
        return is_cancelled
