"""What a turn decided becomes one op, and what the world makes of that its record."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ecumene.client import EcumeneError, GateClosedError
from ecumene.client.records import read_report

from agent_runtime.actions.settlement import ADOPTED, is_answerable, judge_failure, read_adopted
from agent_runtime.model.actions import NO_ANSWER, REPORT, Action, Outcome, Remembered
from agent_runtime.model.errors import ActionRefusedError
from agent_runtime.turns.ends import NOTHING_REPORTED, OK, STOPPED, TurnEnd, make_no_answer
from agent_runtime.turns.part_context import PartContext
from agent_runtime.turns.remembering import describe_agent, remember_turn
from agent_runtime.turns.turn import Turn


class TurnEffects:
    """Of the turns of one group."""

    def __init__(self, context: PartContext, log: Callable[[Turn, BaseException], None]) -> None:
        """`log` is told what went wrong beside a turn's end."""
        self._context = context
        self._log = log

    async def commit(self, turn: Turn, end: TurnEnd) -> ActionRefusedError | None:
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
        states = self._context.states
        remembered: list[Remembered] = []
        if end is not STOPPED:
            if states is not None and turn.memory is not None:
                remembered.append(remember_turn(states.path, turn, end, actions))
            remembered += self._note_wakes(turn)
        if not told and not remembered:
            await self.record(turn, end, actions, None)
            return None
        notice = turn.notice
        outcome = await self._context.outbox.send(turn.producer, notice.revision, told, notice.event.id, remembered)
        if outcome.error is not None and actions and is_answerable(outcome.error):
            return ActionRefusedError(", ".join(dict.fromkeys(action.name for action in actions)), str(outcome.error))
        end, actions = await self._judge(turn, end, actions, outcome)
        if remembered and outcome.error is not None and not isinstance(outcome.error, GateClosedError):
            await self._keep_failed(turn, end, actions)
        await self.record(turn, end, actions, outcome.revision)
        return None

    async def record(self, turn: Turn, end: TurnEnd, actions: Sequence[Action], revision: int | None) -> None:
        """Record how a turn ended, and tell the person in its agent's seat."""
        # A turn that asked nobody has no model; one that has no profile yet may belong to any of a mix.
        model = self._context.find_model(turn) if turn.calls else None
        name = model.settings.model if model is not None else None
        await self._context.records.close_turn(self._context.group.name, turn, name, end, actions, revision)
        if turn.is_seated:
            self._context.presence.end(turn.agent_id, turn.number, end.status.value, end.reason)

    def _note_wakes(self, turn: Turn) -> list[Remembered]:
        """When the agent wants to be woken after the turn, if the turn changes anything of it."""
        wakes, notice = self._context.wakes, turn.notice
        if wakes is None or not (notice.is_wake or turn.wishes):
            return []
        woke_ns = notice.sim_time_ns if notice.is_wake else None
        return [wakes.note(turn.row, turn.agent_id, turn.wishes or {}, woke_ns)]

    async def _keep_failed(self, turn: Turn, end: TurnEnd, actions: Sequence[Action]) -> None:
        """The turn's op had no effect; what the agent remembers of the turn, and wants, is kept all the same."""
        states, wakes = self._context.states, self._context.wakes
        try:
            if states is not None and turn.memory is not None:
                await states.keep(turn.agent_id, describe_agent(turn, end, actions))
            for note in self._note_wakes(turn):
                assert wakes is not None
                await wakes.book.keep(note.key, note.value, turn.notice.event.id)
        except EcumeneError as error:
            self._log(turn, error)

    async def _judge(
        self, turn: Turn, end: TurnEnd, actions: Sequence[Action], outcome: Outcome
    ) -> tuple[TurnEnd, Sequence[Action]]:
        """What the world's answer makes of a turn."""
        if outcome.error is not None:
            failed = TurnEnd(*judge_failure(outcome.error, is_taken_over=self._context.is_taken_over))
            if end.status.acted:
                return failed, actions
            return TurnEnd(end.status, f"{end.reason}; {failed.reason}"), actions
        if not outcome.duplicate:
            return end, actions
        ask = turn.notice.ask
        if ask is None or len(actions) > 1:
            return TurnEnd(end.status, ADOPTED), ()
        status, value = await read_adopted(self._context.world, ask.path, turn.agent_id)
        if read_report(value)[1]:
            return TurnEnd(status, ADOPTED), [Action(REPORT, ask.path, turn.agent_id, value)]
        return TurnEnd(status, ADOPTED), ()
