"""What an operation sees and does: reads of the world, staged writes, and the only things it may await.

Reads see the applied state without the operation's own staged writes. Staged writes take effect together, as one
revision, when the operation returns; an exception drops them.
"""

import math
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol

from env_server.behaviours.behaviour import Target
from env_server.model.entries import Entry
from env_server.model.environments import AggregateValue, Declaration, EnvironmentState
from env_server.model.errors import OperationRefused
from env_server.model.operations import (
    BeginGeneration,
    Code,
    Delete,
    EnvironmentUpdate,
    OpenGate,
    RegisterEnvironment,
    Write,
)
from env_server.model.values import Json


class View(Protocol):
    """The world as an operation reads it."""

    def entry(self, path: str, key: str) -> Entry | None:
        """The entry, None when it or its environment is absent."""

    def entries(self, path: str) -> Mapping[str, Entry]:
        """A snapshot of all entries of an environment; empty when it is absent."""

    def environment(self, path: str) -> EnvironmentState | None:
        """The environment."""

    def aggregates(self, path: str) -> dict[str, AggregateValue]:
        """The environment's aggregates by name."""


class Sleep(NamedTuple):
    """Instruction to whoever drives the operation: go on after this many seconds of the engine's clock."""

    seconds: float

    def __await__(self) -> Generator["Sleep", None, None]:
        yield self


class UndeclaredWrite(Exception):
    """A behaviour wrote a key that it did not declare: a defect of the behaviour."""


class Context:
    """One call of one operation."""

    def __init__(self, path: str, view: View, targets: list[Target]) -> None:
        #: Path of the environment whose operation runs.
        self.path = path
        self.staged: list[Write] = []
        self._view = view
        self._targets = set(targets)

    def get(self, key: str, path: str | None = None) -> Any:
        """An entry's value, JSON values parsed; None when it is absent."""
        entry = self._view.entry(path or self.path, key)
        if entry is None:
            return None
        return entry.value.document if isinstance(entry.value, Json) else entry.value

    def entry(self, key: str, path: str | None = None) -> Entry | None:
        """An entry with its version and revisions."""
        return self._view.entry(path or self.path, key)

    def entries(self, path: str | None = None) -> Mapping[str, Entry]:
        """All entries of an environment, as a snapshot."""
        return self._view.entries(path or self.path)

    def environment(self, path: str | None = None) -> EnvironmentState | None:
        """An environment's declarations and gate; None when it is absent."""
        return self._view.environment(path or self.path)

    def aggregates(self, path: str | None = None) -> dict[str, AggregateValue]:
        """Aggregates by name."""
        return self._view.aggregates(path or self.path)

    def set(self, key: str, value: object, path: str | None = None) -> None:
        """Stages a value; dicts and lists become JSON."""
        kept = Json.of(value) if isinstance(value, dict | list | tuple) else value
        self._stage(path, key, Code.SET, kept)

    def add(self, key: str, amount: int | float, path: str | None = None) -> None:
        """Stages an increment of a counter."""
        self._stage(path, key, Code.ADD, amount)

    def append(self, key: str, value: object, path: str | None = None) -> None:
        """Stages an item of a stream."""
        kept = Json.of(value) if isinstance(value, dict | list | tuple) else value
        self._stage(path, key, Code.APPEND, kept)

    def delete(self, key: str, path: str | None = None) -> None:
        """Stages a deletion; an absent entry makes the operation fail on return."""
        self._stage(path, key, Code.DELETE_ENTRY, Delete())

    def register_child(self, name: str, declaration: Declaration) -> None:
        """Stages a child environment, unless it is there."""
        child = f"{self.path.rstrip('/')}/{name}"
        self._check(self.path, "")
        asked = RegisterEnvironment(declaration, if_absent=True)
        self.staged.append(Write(child, "", Code.REGISTER_ENVIRONMENT, asked))

    def begin_generation(self, path: str, gate: str, count_target: int, deadline_ms: int) -> None:
        """Stages the begin of the gate's next generation."""
        begin = BeginGeneration(gate, count_target, deadline_ms)
        self._stage(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(begin=begin))

    def open_gate(self, path: str, gate: str, generation: int) -> None:
        """Stages the opening of a gate that is still collecting."""
        asked = OpenGate(gate, generation)
        self._stage(path, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(open=asked))

    def emit(self, name: str, document: Mapping[str, object]) -> None:
        """Stages an event of type BEHAVIOUR of this environment."""
        self.staged.append(Write(self.path, name, Code.EMIT, Json.of(dict(document))))

    def refuse(self, code: str, message: str, **details: str) -> NoReturn:
        """Ends the operation without an effect; the caller sees OPERATION_REFUSED with `code`."""
        raise OperationRefused(code, message, **details)

    def sleep(self, seconds: float) -> Sleep:
        """Await it to go on later, on the engine's clock, with the keys held.

        Raises:
            ValueError, TypeError: it is no number.
        """
        if math.isnan(seconds):
            raise ValueError("an operation cannot sleep for NaN seconds")
        return Sleep(float(seconds))

    def breathe(self) -> Sleep:
        """Await it now and then in a long computation, so that others proceed."""
        return Sleep(0.0)

    def _stage(self, path: str | None, key: str, code: Code, argument: object) -> None:
        place = path or self.path
        self._check(place, key)
        self.staged.append(Write(place, key, code, argument))

    def _check(self, path: str, key: str) -> None:
        if (path, key) not in self._targets and (path, None) not in self._targets:
            raise UndeclaredWrite(f"{path} {key!r} is not among the keys that the operation declared")
