"""One activation of one agent: what it sees, what it may do, and what it has cost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ecumene.client import Event, InvalidPositionError, Json, Position, Value
from ecumene.client.records import read_report
from ecumene.client.spaces import as_position
from pydantic import BaseModel

from agent_runtime.actions.validation import check_action, check_turn, copy_value
from agent_runtime.agents.tool_sources import ToolSource
from agent_runtime.llm import Message
from agent_runtime.model.actions import REPORT, Action, Change
from agent_runtime.model.errors import ActionRefusedError
from agent_runtime.model.notices import Notice
from agent_runtime.model.wakes import Wake, Wakes, change_wakes, find_wake_problem
from agent_runtime.turns.conversation import TOOL_ROUNDS_MAX, Conversation
from agent_runtime.turns.reading import Reading
from agent_runtime.turns.toolbox import Toolbox, open_toolbox
from agent_runtime.turns.turn_model import TurnModel

if TYPE_CHECKING:
    from agent_runtime.agents.agent import Agent
    from agent_runtime.agents.memory import Memory
    from agent_runtime.turns.part_context import PartContext

P = ParamSpec("P")
T = TypeVar("T")

NO_PROFILE: Mapping[str, Any] = {}
CORRECTIONS_MAX = 1
MOVE = "move"
_FLAG = re.compile(r"[\w.-]{1,64}", re.ASCII)
WAKE = "wake"
"""What a wish is called where it is refused."""
BAD_ASK = "bad_ask"
"""Flag of a turn whose event asks for what cannot be given, so that it counts as asking for nothing."""


class Turn:
    """What an agent has in hand during one turn. Ends when `on_event` returns; keep no reference to it.

    Attributes:
        agent_id, number: whose turn, and which of its turns, from 1.
        notice: what woke it; `events` and `revision` are the notice's.
        memory, profile: the agent's.
        actions: what it decided so far; sent as one op when it is done.
        refusals: how many ops of this turn the world has refused.
        row: the agent's, in its part.
        wishes: what it asked for of being woken; None = nothing.
    """

    __slots__ = (
        "_context",
        "_corrections",
        "actions",
        "agent",
        "agent_id",
        "attempts",
        "calls",
        "completion_tokens",
        "conversation",
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
        "refusals",
        "row",
        "started_s",
        "wishes",
    )

    def __init__(self, context: PartContext, agent_id: str, number: int, notice: Notice, row: int = 0) -> None:
        self._context = context
        self.row = row
        self.wishes: dict[str, Wake | None] | None = None
        self._corrections = 0
        self.agent_id = agent_id
        self.number = number
        self.notice = notice
        self.agent: Agent | None = None
        self.memory: Memory | None = None
        self.profile: Mapping[str, Any] = NO_PROFILE
        self.started_s = context.clock.now_s()
        self.actions: list[Action] = []
        self.flags: list[str] | None = [BAD_ASK] if notice.ask_problem else None
        self.calls = 0
        self.attempts = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.mode: str | None = None
        self.conversation: Conversation | None = None
        self.refusals = 0
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
        """The revision that woke the agent: what it observes is at least as new.

        It is the number of the turn's op, and the event's id the cause, of every write of the turn.
        """
        return self.notice.revision

    @property
    def sim_time_ns(self) -> int | None:
        """Simulated time of what woke the agent; None where there is no clock. It stays, however long a model takes.

        Of a wake it is the time that was asked for, even if the clock has gone on since; where a skip has passed that,
        the time that it went to.
        """
        return self.notice.sim_time_ns

    @property
    def observed_at_ns(self) -> int | None:
        """Wall time of the commit of what woke the agent, ns since 1970 UTC."""
        return self.notice.observed_at_ns

    @property
    def producer(self) -> str:
        """Who sends the turn's next op: the agent, or the agent's next try after a refusal."""
        return self.agent_id if not self.refusals else f"{self.agent_id}/{self.refusals + 1}"

    @property
    def llm(self) -> TurnModel:
        """The agent's model."""
        return TurnModel(self, self._context)

    @property
    def world(self) -> Reading:
        """Reads the world. Changes go through `act` and `invoke`, so that they stand or fall together."""
        return Reading(self._context)

    async def tools(self, *sources: ToolSource | str) -> Toolbox:
        """The operations of some environments as tools for the agent's model; a path stands for all of its operations.

        Raises ActionRefusedError if there is no such environment or operation; EcumeneError.
        """
        return await open_toolbox(self, self._context.places, [ToolSource.read(source) for source in sources])

    def converse(
        self,
        messages: Callable[[Sequence[Message]], Sequence[Message]],
        tools: Toolbox | None = None,
        *,
        answer_type: type[BaseModel] | None = None,
        rounds_max: int = TOOL_ROUNDS_MAX,
        phase: str = "",
    ) -> Conversation:
        """A conversation with the agent's model in which it calls tools; `messages` makes a prompt of the history.

        `conversation` is the last one that was begun: where what was decided is refused, it can go on.
        """
        self.conversation = Conversation(
            self, messages, tools, answer_type=answer_type, rounds_max=rounds_max, phase=phase
        )
        return self.conversation

    def act(
        self, name: str, path: str, key: str, value: Value, *, change: Change = "set", gate_generation: int = 0
    ) -> None:
        """Decide on a change of the world; see Action for `change`. What becomes of `value` later changes nothing.

        Raises ActionRefusedError, with the reason, if it can never succeed: decide otherwise.
        """
        action = Action(name, path, key, value, change, gate_generation)
        check_action(action)
        check_turn([*self.actions, action])
        ask = self.notice.ask
        if ask is not None and (path, key) == (ask.path, self.agent_id) and not read_report(value)[1]:
            raise ActionRefusedError(name, "a document of a status alone says how a turn ended: it is no report")
        if isinstance(value, dict | list | tuple):
            action = replace(action, value=copy_value(value))
        self.actions.append(action)

    def invoke(self, path: str, operation: str, /, **arguments: Json) -> None:
        """Decide to run an operation of an environment's behaviour: one a turn, all other changes go along with it.

        Its result is not known before the turn has ended; what only looks is called by `world.call` instead.
        Raises ActionRefusedError as `act` does.
        """
        self.act(operation, path, operation, arguments, change="invoke")

    def move(self, path: str, position: Position | None, key: str = "") -> None:
        """Decide to move the agent's own entry of an environment with a space, or that of `key`; None: out of it.

        Raises ActionRefusedError as `act` does; the world refuses what is no place of the space, and full cells.
        """
        try:
            place: Value = None if position is None else list(as_position(position))
        except InvalidPositionError as error:
            raise ActionRefusedError(MOVE, str(error)) from error
        self.act(MOVE, path, key or self.agent_id, place, change="move")

    def report(self, value: Value) -> None:
        """Give what the waking event asks for, under the generation that it named.

        Raises ActionRefusedError if it asks for nothing, or the value is none.
        """
        ask = self.notice.ask
        if ask is None:
            raise ActionRefusedError(REPORT, self.notice.ask_problem or "the event asks for no report")
        self.act(REPORT, ask.path, self.agent_id, value, gate_generation=ask.generation)

    @property
    def wakes(self) -> Wakes:
        """The wakes that the agent had asked for, if one of them has woken it; all of one time. Else none."""
        return self.notice.wakes

    def wake_at(self, at_ns: int, name: str = "", payload: Json = None) -> None:
        """Ask to be woken at a time of the group's clock, once, in place of an earlier wish of that name.

        Kept with the turn, also if it fails afterwards; `payload` is told with the wake. An agent wants at most 64
        wakes at a time, the first of them if it asks for more.

        Raises ActionRefusedError: the group lives by no clock, the time has passed for this turn, or is none.
        """
        now_ns = self.sim_time_ns
        problem = "" if self._context.wakes is not None else "the group lives by no clock"
        problem = problem or find_wake_problem(at_ns, name, payload)
        if not problem and now_ns is not None and at_ns <= now_ns:
            problem = f"it is {now_ns} ns, and a wake lies behind that: {at_ns} ns does not"
        if problem:
            raise ActionRefusedError(WAKE, problem)
        self.wishes = {**(self.wishes or {}), name: Wake(at_ns, name, json.loads(json.dumps(payload)))}

    def wake_after(self, after_ns: int, name: str = "", payload: Json = None) -> None:
        """The same, so long after the time of what woke the agent. Raises ActionRefusedError: that has no time, too."""
        if self.sim_time_ns is None:
            raise ActionRefusedError(WAKE, "what woke the agent has no time; ask for one with wake_at")
        if not isinstance(after_ns, int):
            raise ActionRefusedError(WAKE, find_wake_problem(after_ns, name, payload))
        self.wake_at(self.sim_time_ns + after_ns, name, payload)

    def cancel_wake(self, name: str = "") -> None:
        """Do not want a wake any more; nothing happens if there is none of that name."""
        if self._context.wakes is not None:
            self.wishes = {**(self.wishes or {}), name: None}

    @property
    def pending_wakes(self) -> Wakes:
        """What the agent wants after this turn, so far."""
        wakes = self._context.wakes
        return change_wakes(wakes.pending(self.row), self.wishes or {}) if wakes is not None else ()

    def flag(self, flag: str) -> None:
        """Note something about this turn in its record; one word, few distinct ones.

        Raises ValueError if it is none.
        """
        if not isinstance(flag, str) or not _FLAG.fullmatch(flag):
            raise ValueError("a flag is one word of at most 64 letters, digits, '_', '-' and '.'")
        if flag not in (self.flags or ()):
            self.flags = [*(self.flags or ()), flag]

    def take_correction(self) -> bool:
        """Whether the agent may be told of a refusal and decide again; once a turn."""
        if self._corrections >= CORRECTIONS_MAX:
            return False
        self._corrections += 1
        return True

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking code beside the loop, so that no other agent waits for it; returns what it returns.

        A turn that ends before it does not end it: it goes on, unheard. At most 32 run at a time in a worker; those
        whose turns have ended do not count.
        """
        return await self._context.threads.run(partial(function, *args, **kwargs))
