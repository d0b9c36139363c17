"""One activation of one agent: what it sees, what it may do, and what it has cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ecumene.client import Entry, Event, Value

from agent_runtime.actions.validation import check_action, check_turn
from agent_runtime.model.actions import REPORT, Action, Change
from agent_runtime.model.errors import ActionRefusedError
from agent_runtime.model.notices import Notice
from agent_runtime.turns.asking import Asking

if TYPE_CHECKING:
    from agent_runtime.agents.memory import Memory
    from agent_runtime.turns.desk import Desk

NO_PROFILE: Mapping[str, Any] = {}


class Turn:
    """What an agent has in hand during one turn. Ends when `on_event` returns; keep no reference to it.

    Attributes:
        agent_id, number: whose turn, and which of its turns, from 1.
        notice: what woke it; `events` and `revision` are the notice's.
        memory, profile: the agent's.
        actions: what it decided so far; sent as one op when it is done.
    """

    __slots__ = (
        "_desk",
        "actions",
        "agent_id",
        "attempts",
        "calls",
        "completion_tokens",
        "flags",
        "is_committing",
        "is_seated",
        "is_stopped",
        "is_timed_out",
        "memory",
        "mode",
        "notice",
        "number",
        "profile",
        "prompt_tokens",
        "started_s",
    )

    def __init__(self, desk: Desk, agent_id: str, number: int, notice: Notice) -> None:
        self._desk = desk
        self.agent_id = agent_id
        self.number = number
        self.notice = notice
        self.memory: Memory | None = None
        self.profile: Mapping[str, Any] = NO_PROFILE
        self.started_s = desk.clock.now_s()
        self.actions: list[Action] = []
        self.flags: list[str] | None = None
        self.calls = 0
        self.attempts = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.mode: str | None = None
        self.is_committing = False
        self.is_seated = False
        self.is_timed_out = False
        self.is_stopped = False

    @property
    def events(self) -> tuple[Event, ...]:
        """All events of one revision that concern the agent, in order."""
        return self.notice.events

    @property
    def revision(self) -> int:
        """The revision that woke the agent: what it observes is at least as new."""
        return self.notice.revision

    @property
    def llm(self) -> Asking:
        """The agent's model."""
        return Asking(self, self._desk)

    @property
    def world(self) -> Reading:
        """Reads the world. Changes go through `act`, so that they stand or fall together."""
        return Reading(self._desk)

    def act(
        self, name: str, path: str, key: str, value: Value, *, change: Change = "set", gate_generation: int = 0
    ) -> None:
        """Decide on a change of the world; `change` is `set`, `append` or `increment`.

        Raises ActionRefusedError, with the reason, if it can never succeed: decide otherwise.
        """
        action = Action(name, path, key, value, change, gate_generation)
        check_action(action)
        self.actions.append(action)
        check_turn(self.actions)

    def report(self, value: Value) -> None:
        """Give what the waking event asks for, under the generation that it named.

        Raises ActionRefusedError if it asks for nothing, or the value is none.
        """
        ask = self.notice.ask
        if ask is None:
            raise ActionRefusedError(REPORT, "the event asks for no report")
        self.act(REPORT, ask.path, self.agent_id, value, gate_generation=ask.generation)

    def flag(self, flag: str) -> None:
        """Note something about this turn in its record; one word, few distinct ones."""
        self.flags = [*(self.flags or ()), flag]


class Reading:
    """The world as a turn may read it. Reads see at least the revision that woke the agent."""

    __slots__ = ("_desk",)

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def get(self, path: str, key: str) -> Entry:
        """An entry. Raises EcumeneError, for instance EntryNotFoundError."""
        return await self._desk.world.environment(path).get(key)

    async def value(self, path: str, key: str, default: Value = None) -> Value:
        """An entry's value, or `default` when there is no such entry. Raises EcumeneError."""
        return await self._desk.world.environment(path).value(key, default)
