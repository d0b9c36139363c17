"""Who of a worker's agents takes no turns, and in whose place a person sits.

A seated agent's turn is told, waits for what the person decides, and falls back to the agent when its time is over.
What the person decides passes the same checks as an agent's actions, and is sent in the same op, by the same producer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ecumene.client import Value

from agent_runtime.model.actions import Change
from agent_runtime.model.errors import AgentRuntimeError
from agent_runtime.model.notices import Notice

SEATED = "seated"
"""Flag of a turn for which a person was asked."""
REFUSED = "refused"
"""In place of a status: the person may decide again."""

Tell = Callable[[dict[str, Any]], None]


class NobodySitsError(AgentRuntimeError):
    """A decision for a turn that does not wait for one."""

    def __init__(self, agent: str, turn: int) -> None:
        super().__init__(f"no turn {turn} of {agent!r} waits for a decision")


@dataclass(frozen=True, slots=True)
class Chosen:
    """One action that a person decided on."""

    name: str
    path: str
    key: str
    value: Value
    change: Change = "set"


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided for one turn. `report`: one value in a tuple; None = nothing is reported."""

    report: tuple[Any, ...] | None
    actions: Sequence[Chosen] = ()


@dataclass(slots=True)
class _Seat:
    timeout_s: float
    turn: int = 0
    waiting: asyncio.Future[Decision | None] | None = None


@dataclass(slots=True)
class Presence:
    """Of all agents of one worker. `tell` takes what the daemon is to know."""

    tell: Tell | None = None
    muted: set[str] = field(default_factory=set)
    _seats: dict[str, _Seat] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether nobody is muted and nobody seated, as almost always."""
        return not self.muted and not self._seats

    def is_seated(self, agent: str) -> bool:
        """Whether a person sits in the agent's place."""
        return agent in self._seats

    def settle(self, is_here: Callable[[str], bool], muted: Sequence[str]) -> None:
        """Agents have come: of them those are muted and no others, and nobody sits in their places yet.

        What was known of them is of an earlier stay here.
        """
        self.muted = {agent for agent in self.muted if not is_here(agent)} | set(muted)
        for agent in [agent for agent in self._seats if is_here(agent)]:
            self.give_back(agent)

    def mute(self, agent: str, muted: bool) -> None:
        """Let an agent take no more turns, or again."""
        if muted:
            self.muted.add(agent)
        else:
            self.muted.discard(agent)

    def seat(self, agent: str, timeout_s: float) -> None:
        """A person takes an agent's place; a turn gets `timeout_s`."""
        self.give_back(agent)
        self._seats[agent] = _Seat(timeout_s)

    def give_back(self, agent: str) -> None:
        """The agent has its place again; a turn that waits falls back to it."""
        seat = self._seats.pop(agent, None)
        if seat is not None and seat.waiting is not None and not seat.waiting.done():
            seat.waiting.set_result(None)

    def decide(self, agent: str, turn: int, decision: Decision) -> None:
        """What the person decided. Raises NobodySitsError."""
        seat = self._seats.get(agent)
        if seat is None or seat.turn != turn or seat.waiting is None or seat.waiting.done():
            raise NobodySitsError(agent, turn)
        seat.waiting.set_result(decision)

    async def ask(
        self,
        agent: str,
        turn: int,
        notice: Notice,
        apply: Callable[[Decision], Awaitable[None]],
        refused: type[Exception],
    ) -> str:
        """Have the person decide a turn; "" when that was done, or else why it was not.

        `apply` puts a decision into effect; when it raises `refused`, the person is told and may decide again, within
        the same time.
        """
        seat = self._seats.get(agent)
        if seat is None:
            return "nobody sits there any more"
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + seat.timeout_s
        self._say(agent, turn, **describe_notice(notice), timeout_ms=round(seat.timeout_s * 1000))
        while True:
            seat.turn, seat.waiting = turn, loop.create_future()
            try:
                async with asyncio.timeout_at(deadline_s):
                    decision = await seat.waiting
            except TimeoutError:
                return f"no word from the seat within {seat.timeout_s:g} s"
            finally:
                seat.waiting = None
            if decision is None:
                return "the seat was given back"
            try:
                await apply(decision)
                return ""
            except refused as error:
                self._say(agent, turn, status=REFUSED, reason=str(error))

    def end(self, agent: str, turn: int, status: str, reason: str | None) -> None:
        """How a turn of a seat has ended."""
        if agent in self._seats:
            self._say(agent, turn, status=status, reason=reason or "")

    def _say(self, agent: str, turn: int, **told: Any) -> None:
        if self.tell is not None:
            self.tell({"seat": agent, "turn": turn, **told})


def describe_notice(notice: Notice) -> Mapping[str, Any]:
    """What woke an agent, for a person."""
    events = [
        {
            "type": event.type.name.lower(),
            "path": event.path,
            "key": event.key,
            "value": None if isinstance(event.value, bytes) else event.value,
        }
        for event in notice.events
    ]
    return {"revision": notice.revision, "events": events, "asks_report": notice.ask is not None}
