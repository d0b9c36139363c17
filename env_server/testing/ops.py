"""Ops, frames and their answers, written by hand: what the engine's tests send to a world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from env_server.model.entries import Entry
from env_server.model.environments import Declaration
from env_server.model.errors import WorldError
from env_server.model.frames import Answer, EntryRead, Frame, Invoked, Outcome, Written
from env_server.model.operations import (
    ClockAction,
    Code,
    ControlClock,
    Delete,
    Get,
    Invoke,
    Precondition,
    Query,
    RegisterEnvironment,
    SetTimer,
)
from env_server.model.values import Json, Value


class Op(NamedTuple):
    """One op with what may stand beside it."""

    path: str
    key: str
    code: Code
    argument: object
    producer: str = ""
    seq: int = 0
    generation: int = 0
    version: int = 0
    preconditions: tuple[Precondition, ...] = ()
    actor: str = ""
    fence: Precondition | None = None


def put(path: str, key: str, value: Value, **beside: Any) -> Op:
    """An op that sets a value."""
    return Op(path, key, Code.SET, value, **beside)


def add(path: str, key: str, amount: int | float, **beside: Any) -> Op:
    """An op that increments a counter."""
    return Op(path, key, Code.ADD, amount, **beside)


def drop(path: str, key: str, **beside: Any) -> Op:
    """An op that deletes an entry, or without a key an environment."""
    return Op(path, key, Code.DELETE_ENTRY if key else Code.DELETE_ENVIRONMENT, Delete(), **beside)


def get(path: str, key: str = "") -> Op:
    """An op that reads."""
    return Op(path, key, Code.QUERY, Query(Get()))


def invoke(
    path: str, operation: str, /, *companions: Any, beside: dict[str, Any] | None = None, **arguments: Any
) -> Op:
    """An op that runs an operation of a behaviour."""
    asked = Invoke(operation, Json.of(arguments), companions)
    return Op(path, "", Code.INVOKE, asked, **(beside or {}))


def new_environment(path: str, if_absent: bool = False, **declared: Any) -> Op:
    """An op that registers an environment."""
    return Op(path, "", Code.REGISTER_ENVIRONMENT, RegisterEnvironment(Declaration(**declared), if_absent))


def set_timer(path: str, name: str, beside: dict[str, Any] | None = None, **asked: Any) -> Op:
    """An op that sets a timer; `asked` are the fields of SetTimer."""
    return Op(path, name, Code.SET_TIMER, SetTimer(**asked), **(beside or {}))


def cancel_timer(path: str, name: str, if_present: bool = False, **beside: Any) -> Op:
    """An op that cancels a timer."""
    return Op(path, name, Code.CANCEL_TIMER, Delete(if_present=if_present), **beside)


def control(path: str, action: ClockAction, ns: int = 0, rate: float = 0.0, **beside: Any) -> Op:
    """An op that controls the clock of an environment."""
    return Op(path, "", Code.CONTROL_CLOCK, ControlClock(action, ns, rate), **beside)


@dataclass
class Sent:
    """A frame that was handed to the world, with the parts of its answer as they came."""

    frame: Frame
    parts: list[Answer] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether every op is answered."""
        return bool(self.parts) and not self.parts[-1].pending

    def outcome(self, index: int = 0) -> Outcome:
        """What came of an op."""
        found = [(part, listed) for part in self.parts for listed in part.outcomes if listed.index == index]
        assert len(found) <= 1, f"op {index} is answered {len(found)} times: {found}"
        if found:
            return found[0][1].outcome
        first = self.parts[0]
        assert index not in first.pending, f"op {index} still waits"
        assert index not in first.without_revision, f"op {index} took no revision and is not explained"
        idle = sum(other < index for other in {*first.without_revision, *first.pending})
        version = first.versions[index] if first.versions else 0
        return Written(first.base_revision + 1 + index - idle, version)

    def is_duplicate(self, index: int = 0) -> bool:
        """Whether the outcome is that of an earlier op."""
        return any(listed.duplicate for part in self.parts for listed in part.outcomes if listed.index == index)

    @property
    def error(self) -> WorldError:
        """The first op's error."""
        outcome = self.outcome()
        assert isinstance(outcome, WorldError), outcome
        return outcome

    @property
    def written(self) -> Written:
        """The first op's write."""
        outcome = self.outcome()
        assert isinstance(outcome, Written), outcome
        return outcome

    @property
    def invoked(self) -> Invoked:
        """The first op's operation."""
        outcome = self.outcome()
        assert isinstance(outcome, Invoked), outcome
        return outcome

    @property
    def entry(self) -> Entry:
        """The entry that the first op read."""
        outcome = self.outcome()
        assert isinstance(outcome, EntryRead), outcome
        return outcome.entry


def make_frame(ops: Sequence[Op], client_id: str = "", seq: int = 0) -> Frame:
    """The ops in columns; a column that says nothing is None, as from the wire."""
    paths = list(dict.fromkeys(op.path for op in ops))
    frame = Frame(
        paths,
        [paths.index(op.path) for op in ops],
        [op.key for op in ops],
        [int(op.code) for op in ops],
        [op.argument for op in ops],
        client_id=client_id,
        seq=seq,
        return_versions=True,
    )
    if any(op.producer for op in ops):
        frame.producers = [op.producer for op in ops]
        frame.producer_seqs = [op.seq for op in ops]
    if any(op.generation for op in ops):
        frame.gate_generations = [op.generation for op in ops]
    if any(op.version for op in ops):
        frame.expect_versions = [op.version for op in ops]
    if any(op.actor for op in ops):
        frame.actors = [op.actor for op in ops]
    if any(op.preconditions for op in ops):
        frame.preconditions = {index: op.preconditions for index, op in enumerate(ops) if op.preconditions}
    if any(op.fence for op in ops):
        frame.fences = tuple(dict.fromkeys(op.fence for op in ops if op.fence))
        frame.fence = [frame.fences.index(op.fence) + 1 if op.fence else 0 for op in ops]
    return frame
