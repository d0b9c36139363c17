"""What the world keeps of an agent between turns: what it remembers, and how its last turn ended.

Written in the op of the turn itself, so that the effects of a turn and its memory stand or fall together. A new owner
of the agent reads it once, when the agent is first woken; a turn that stands there is not taken again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from ecumene.client import EntryNotFoundError, Json, Value, World
from ecumene.client.records import TurnStatus
from pydantic import BaseModel, Field

from agent_runtime.model.actions import Action, Change
from agent_runtime.model.errors import AgentRuntimeError

ACTIONS_CHARS_MAX = 256 * 1024
"""Larger actions are not kept beside the memory; a turn that is adopted then shows none."""


class StateUnreadableError(AgentRuntimeError):
    """What stands in the place of an agent's state is none that a runtime has written."""

    def __init__(self, revision: int) -> None:
        super().__init__(f"the state of revision {revision} is none that a runtime has written")


class _Kept(BaseModel):
    """The document of a state: anybody who may write to the world may have written another."""

    turn: Annotated[int, Field(ge=0, le=2**31 - 1)]
    revision: Annotated[int, Field(ge=0, le=2**63 - 1)]
    status: TurnStatus
    reason: str | None
    memory: Any
    actions: list[tuple[str, str, str, Change, str, Any]] | None
    costs: dict[str, Annotated[int, Field(ge=0, le=2**63 - 1)]]
    notes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AgentState:
    """An agent after one of its turns.

    Attributes:
        turn: its number.
        revision: the event that began it; every earlier one of the agent has had its turn.
        status, reason: how it ended.
        memory: as Memory.dump gave it.
        actions: what it decided; None = too much to be kept.
        costs: name -> count, of a turn's model calls.
        notes: mode and flags of the record.
        commit_revision: the revision in which this was written; 0 before that.
    """

    turn: int
    revision: int
    status: TurnStatus
    reason: str | None
    memory: Json
    actions: tuple[Action, ...] | None
    costs: Mapping[str, int]
    notes: Mapping[str, Any]
    commit_revision: int = 0

    def to_document(self) -> dict[str, Json]:
        """As the world keeps it."""
        actions: Json = None if self.actions is None else [_spread(action) for action in self.actions]
        if actions is not None and len(json.dumps(actions)) > ACTIONS_CHARS_MAX:
            actions = None
        return {
            "turn": self.turn,
            "revision": self.revision,
            "status": self.status.value,
            "reason": self.reason,
            "memory": self.memory,
            "actions": actions,
            "costs": dict(self.costs),
            "notes": dict(self.notes),
        }

    @classmethod
    def from_document(cls, document: Value, commit_revision: int) -> AgentState:
        """What `to_document` gave. Raises StateUnreadableError for anything else, which somebody else has written."""
        try:
            kept = _Kept.model_validate(document)
            actions = None if kept.actions is None else tuple(map(_gather, kept.actions))
        except ValueError as error:
            raise StateUnreadableError(commit_revision) from error
        return cls(
            turn=kept.turn,
            revision=kept.revision,
            status=kept.status,
            reason=kept.reason,
            memory=kept.memory,
            actions=actions,
            costs=kept.costs,
            notes=kept.notes,
            commit_revision=commit_revision,
        )


class AgentStates:
    """States of the agents of one part."""

    def __init__(self, world: World, fenced: World, path: str) -> None:
        """Reads go through `world`, writes through the part's `fenced` handle."""
        self.path = path
        self._place = world.environment(path)
        self._fenced = fenced.environment(path)
        self._unreadable: set[str] = set()

    async def read(self, agent_id: str) -> AgentState | None:
        """The agent after its last turn; None if it has had none.

        Raises EcumeneError; StateUnreadableError, once an agent: from then on it is one without memories.
        """
        try:
            entry = await self._place.get(agent_id)
        except EntryNotFoundError:
            return None
        try:
            return AgentState.from_document(entry.value, entry.modify_revision)
        except StateUnreadableError:
            if agent_id in self._unreadable:
                return None
            self._unreadable.add(agent_id)
            raise

    async def keep(self, agent_id: str, state: AgentState) -> None:
        """Keep a state by itself, where the turn's own op failed. Raises EcumeneError."""
        await self._fenced.set(agent_id, state.to_document())


def _spread(action: Action) -> Json:
    if isinstance(action.value, bytes):
        return [action.name, action.path, action.key, action.change, "bytes", base64.b64encode(action.value).decode()]
    return [action.name, action.path, action.key, action.change, "", action.value]


def _gather(spread: tuple[str, str, str, Change, str, Any]) -> Action:
    """Raises ValueError."""
    name, path, key, change, kind, value = spread
    if kind == "bytes":
        if not isinstance(value, str):
            raise ValueError("bytes are kept as text")
        value = base64.b64decode(value, validate=True)
    return Action(name, path, key, value, change)
