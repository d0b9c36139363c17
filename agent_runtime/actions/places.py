"""Which places there are and what they offer, as far as this worker has asked.

What is absent is asked for again; what is there is asked for once, until the world refuses something there (`forget`).
So a turn's actions are tested against the world without an op each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
from ecumene.client import EntryNotFoundError, EnvironmentNotFoundError, KindInfo, OperationInfo, World

from agent_runtime.model.actions import Action
from agent_runtime.model.errors import ActionRefusedError

PLACES_KNOWN_MAX = 10_000
PROBLEM_CHARS_MAX = 300
_NAMES_TOLD_MAX = 20
_UNASKED = frozenset({"set", "append", "increment", "merge", "move"})


class Schema:
    """A JSON schema as it is tested."""

    __slots__ = ("_validator",)

    def __init__(self, document: Any) -> None:
        """None and True allow everything, as does a schema that cannot be compiled here: the world will judge."""
        self._validator: Any = None
        if isinstance(document, dict) and document:
            try:
                self._validator = jsonschema_rs.validator_for(document, offline=True, validate_formats=False)
            except ValueError:
                self._validator = None

    def find_problem(self, value: object) -> str:
        """What is wrong with a value, in one line; "" if nothing."""
        if self._validator is None or isinstance(value, bytes | bytearray):
            return ""
        try:
            error = next(self._validator.iter_errors(value), None)
        except ValueError as unreadable:
            return f"cannot be checked: {unreadable}"[:PROBLEM_CHARS_MAX]
        if error is None:
            return ""
        where = ".".join(map(str, error.instance_path))
        line = " ".join(str(error.message).split())
        return (f"{where}: {line}" if where else line)[:PROBLEM_CHARS_MAX]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a place."""

    info: OperationInfo
    schema: Schema


@dataclass(frozen=True, slots=True)
class Place:
    """An environment that was there when it was asked for."""

    path: str
    kind: str
    entry_schema: Schema
    operations: Mapping[str, Operation]

    def find_operation(self, action: str, name: str) -> Operation:
        """Raises ActionRefusedError if it has none of the name."""
        found = self.operations.get(name)
        if found is None:
            names = ", ".join(sorted(self.operations)[:_NAMES_TOLD_MAX]) or "none"
            raise ActionRefusedError(action, f"{self.path} has no operation {name!r}; it has {names}")
        return found


class KnownPlaces:
    """The places of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[str, Place] = {}
        self._kinds: dict[str, Mapping[str, Operation]] = {"basic": {}}

    def knows(self, path: str) -> bool:
        """Whether an environment was there when it was asked for."""
        return path in self._known

    def allows(self, action: Action) -> bool:
        """Whether an action is known to be possible without asking anybody; else `check` it."""
        place = self._known.get(action.path)
        return place is not None and action.change in _UNASKED and not _find_value_problem(place, action)

    def forget(self, path: str) -> None:
        """Ask again when it is next needed."""
        if (place := self._known.pop(path, None)) is not None and place.operations:
            self._kinds.pop(place.kind, None)

    async def find(self, action: str, path: str) -> Place:
        """The place of an action. Raises ActionRefusedError if there is none; EcumeneError."""
        if (known := self._known.get(path)) is not None:
            return known
        try:
            info = await self._world.environment(path).describe()
        except EnvironmentNotFoundError as error:
            raise ActionRefusedError(action, f"there is no environment {path}") from error
        if info.kind not in self._kinds:
            self._kinds[info.kind] = read_operations(await self._world.describe_kind(info.kind))
        if len(self._known) >= PLACES_KNOWN_MAX:
            self._known.clear()
        place = self._known[path] = Place(path, info.kind, Schema(info.entry_schema), self._kinds[info.kind])
        return place

    async def check(self, action: Action) -> None:
        """Tests an action that is sound in itself against the world as it is.

        Raises:
            ActionRefusedError: it names a place, an entry or an operation that is not there, or gives what the place's
                schemas do not allow.
            EcumeneError: the world could not be asked.
        """
        place = self._known.get(action.path) or await self.find(action.name, action.path)
        if action.change == "invoke":
            problem = place.find_operation(action.name, action.key).schema.find_problem(action.value)
            if problem:
                raise ActionRefusedError(action.name, f"arguments of {action.key}: {problem}")
        elif action.change == "delete":
            await self._check_entry(action)
        elif problem := _find_value_problem(place, action):
            raise ActionRefusedError(action.name, f"entries of {action.path}: {problem}")

    async def _check_entry(self, action: Action) -> None:
        try:
            await self._world.environment(action.path).get(action.key)
        except EntryNotFoundError as error:
            raise ActionRefusedError(action.name, f"there is no entry {action.key!r} in {action.path}") from error


def _find_value_problem(place: Place, action: Action) -> str:
    """Of a value that is set; what is merged, added or appended only the world can judge."""
    return place.entry_schema.find_problem(action.value) if action.change == "set" else ""


def read_operations(kind: KindInfo) -> dict[str, Operation]:
    """The operations of a kind by name, ready to be tested."""
    return {info.name: Operation(info, Schema(info.args_schema)) for info in kind.operations}
