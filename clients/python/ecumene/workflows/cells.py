"""Actors and calls on a stage, and what a stage needs of where it stands."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ecumene.workflows.errors import Failure
from ecumene.workflows.messages import Message
from ecumene.workflows.values import Tree

if TYPE_CHECKING:
    from ecumene.client import World, Writes
    from ecumene.workflows.callers import Caller

TURNS_A_LIFE = 1_000_000_000
"""An actor that was made again counts on from a number that it cannot have had."""


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """A call that has ended, for records."""

    flow: str
    caller: str
    number: int
    lane: str
    actor: str
    class_name: str
    method: str
    do: str
    """Whether it makes, calls or stops its actor."""
    turn: int
    """Its number among those of its actor, from 1, of one made again from TURNS_A_LIFE + 1; 0 = it ran no method."""
    revision: int
    """At which the call came to its host, and when that was; 0 in a local flow."""
    observed_at_ns: int
    failure: Failure | None
    attempts: int
    arrived_s: float
    started_s: float
    ended_s: float
    result_bytes: int
    effects: int
    """Writes that took effect with it."""


class StagePort(Protocol):
    """What a stage needs of where it stands."""

    world: World | None

    def need(self, message: Message, deliver: Callable[[int, str], None]) -> None:
        """Bring the outcomes that a message refers to: `deliver(place, text)` for each, now or later, in the loop."""

    def find_caller(self, message: Message) -> Caller:
        """Through which calls of the message's actor go."""

    def commit(
        self, message: Message, text: str, effects: Writes | None, then: Callable[[Exception | None], None]
    ) -> None:
        """Write an outcome with its effects; `then(None)` when that is durable or another one counts.

        `then(error)`: the effects could not be taken, and nothing happened.
        """

    def record(self, call: FinishedCall) -> None:
        """A call has ended. Once a call."""


class Job:
    """A call on the stage."""

    __slots__ = ("arrived_s", "attempts", "failures", "is_told", "message", "missing", "refs", "started_s", "turn")

    def __init__(self, message: Message, arrived_s: float) -> None:
        self.message = message
        self.arrived_s = arrived_s
        self.started_s = 0.0
        self.turn = 0
        self.attempts = 0
        self.is_told = False
        """Its outcome is on its way."""
        self.refs: list[Tree] = [None] * len(message.refs)
        self.missing = len(message.refs)
        self.failures: dict[int, Failure] = {}


class ActorCell:
    """An actor on the stage."""

    __slots__ = (
        "actor",
        "class_name",
        "failure",
        "instance",
        "is_gone",
        "lanes",
        "made_for",
        "ready",
        "running",
        "task",
        "turns",
    )

    def __init__(self, actor: str, class_name: str, made_for: tuple[str, str], life: int) -> None:
        self.actor = actor
        self.turns = life * TURNS_A_LIFE
        """The number of the last one."""
        self.class_name = class_name
        self.made_for = made_for
        """Flow and caller."""
        self.instance: Any = None
        self.failure: Failure | None = None
        """Why it could not be made."""
        self.lanes: dict[str, deque[Job]] = {}
        self.ready: deque[Job] = deque()
        self.running: Job | None = None
        self.task: asyncio.Task[None] | None = None
        self.is_gone = False
