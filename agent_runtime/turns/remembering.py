"""What the world is told to keep of an agent after a turn, and a turn as it was when it was taken before."""

from __future__ import annotations

from collections.abc import Sequence

from ecumene.client.records import TurnStatus

from agent_runtime.actions.settlement import LATE
from agent_runtime.model.actions import Action, Remembered
from agent_runtime.ownership.agent_states import AgentState
from agent_runtime.turns.ends import TurnEnd
from agent_runtime.turns.turn import Turn

COSTS = ("calls", "attempts", "prompt_tokens", "completion_tokens")
NOTES = ("mode", "flags")


def remember_turn(path: str, turn: Turn, end: TurnEnd, actions: Sequence[Action]) -> Remembered:
    """What goes into the op of a turn; `path` keeps agents' states."""
    late = TurnEnd(TurnStatus.TIMEOUT, LATE) if end.status.acted else TurnEnd(end.status, f"{end.reason}; {LATE}")
    return Remembered(
        path,
        turn.agent_id,
        describe_agent(turn, end, actions).to_document(),
        describe_agent(turn, late, actions).to_document(),
    )


def describe_agent(turn: Turn, end: TurnEnd, actions: Sequence[Action]) -> AgentState:
    """An agent after a turn that ended so."""
    return AgentState(
        turn=turn.number,
        revision=turn.revision,
        status=end.status,
        reason=end.reason,
        memory=None if turn.memory is None else turn.memory.dump(),
        actions=tuple(actions),
        costs={name: getattr(turn, name) for name in COSTS},
        notes={name: getattr(turn, name) for name in NOTES},
    )


def recall_turn(turn: Turn, state: AgentState) -> TurnEnd:
    """Make a turn what it was when it was taken before; returns how it ended."""
    turn.number = state.turn
    turn.actions = list(state.actions or ())
    for name in COSTS:
        setattr(turn, name, state.costs.get(name, 0))
    for name in NOTES:
        setattr(turn, name, state.notes.get(name))
    return TurnEnd(state.status, state.reason)
