"""How a behaviour is written.

    class Tally(Behaviour):
        kind = "tally"

        @operation(writes=lambda path, by: [Target(path, "total")])
        async def add(self, ctx: Context, by: int = 1) -> int:
            total = (ctx.get("total") or 0) + by
            ctx.set("total", total)
            return total

        @listener(types=[EventType.ENTRY_SET], key="total", writes=lambda path, event: [Target(path, "changes")])
        async def count(self, ctx: Context, event: Event) -> None:
            ctx.add("changes", 1)

The class is installed on the server, registered by the entry point group `ecumene.behaviours` or `--behaviour
module:Class`. It holds no state: state lives in the world. Arguments are checked against the annotations before the
operation starts.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from env_server.model.changes import EventType
from env_server.model.errors import InvalidRequest, Reason, WorldError
from env_server.model.values import Json

_MARK = "__ecumene_operation__"
_LISTENER_MARK = "__ecumene_listener__"
_VIOLATIONS_MAX = 16
_Method = TypeVar("_Method", bound=Callable[..., Awaitable[Any]])


class Target(NamedTuple):
    """A key that an operation writes; None = the whole environment, "" = its declarations and children."""

    path: str
    key: str | None


Writes = Callable[..., Iterable[Target]]


class Callee(Protocol):
    """What can be run in an environment: an operation, or a listener."""

    @property
    def name(self) -> str:
        """Of its method."""

    @property
    def method(self) -> Callable[..., Awaitable[Any]]:
        """Takes a context and the arguments."""

    @property
    def timeout_s(self) -> float | None:
        """None = the server's default."""

    @property
    def reads_only(self) -> bool:
        """Whether it may neither write nor emit nor call."""

    def targets(self, path: str, arguments: dict[str, Any]) -> list[Target]:
        """The keys that a call with these arguments may write."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a behaviour."""

    name: str
    method: Callable[..., Awaitable[Any]]
    arguments: type[BaseModel]
    writes: Writes | None
    timeout_s: float | None
    reads_only: bool = False

    def parse(self, arguments: Json) -> dict[str, Any]:
        """The arguments as the method takes them.

        Raises:
            InvalidRequest: INVALID_ARGUMENTS with one violation a field.
        """
        try:
            model = self.arguments.model_validate_json(arguments.text or b"{}")
        except ValidationError as error:
            raise _invalid(self.name, error) from None
        return {name: getattr(model, name) for name in self.arguments.model_fields}

    def targets(self, path: str, arguments: dict[str, Any]) -> list[Target]:
        """The keys that a call with these arguments writes; by default the whole environment, exclusively."""
        if self.reads_only:
            return []
        if self.writes is None:
            return [Target(path, None)]
        return list(self.writes(path, **arguments))


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener of a behaviour, and what it listens to."""

    name: str
    method: Callable[..., Awaitable[Any]]
    types: frozenset[int]
    path: str
    key: str
    writes: Writes | None
    timeout_s: float | None
    reads_only: ClassVar[bool] = False

    def targets(self, path: str, arguments: dict[str, Any]) -> list[Target]:
        """The keys that it may write when it hears this event; by default its whole environment, exclusively."""
        if self.writes is None:
            return [Target(path, None)]
        return list(self.writes(path, **arguments))


class Behaviour:
    """Base of behaviours: `kind` names the kind of environment, marked methods are its operations and listeners."""

    kind: ClassVar[str]
    #: Operations of one environment of this kind that may run at a time; 0 = only the server's bound counts.
    concurrency_max: ClassVar[int] = 0

    def operations(self) -> dict[str, Operation]:
        """The operations by name."""
        found = {}
        for name, method in inspect.getmembers(self, inspect.ismethod):
            mark = getattr(method, _MARK, None)
            if mark is not None:
                found[name] = Operation(name, method, _arguments_of(method), *mark)
        return found

    def listeners(self) -> dict[str, Listener]:
        """The listeners by name."""
        found = {}
        for name, method in inspect.getmembers(self, inspect.ismethod):
            mark = getattr(method, _LISTENER_MARK, None)
            if mark is not None:
                found[name] = Listener(name, method, *mark)
        return found


def operation(
    *, writes: Writes | None = None, timeout_s: float | None = None, reads_only: bool = False
) -> Callable[[_Method], _Method]:
    """Marks an async method `(self, ctx, **arguments) -> JSON value` as an operation.

    `writes(path, **arguments)` gives the keys it may write, known at admission; without it the operation has its whole
    environment to itself. `timeout_s` None = the server's default. `reads_only`: it changes nothing, holds no keys, and
    is described as such; writing, emitting or calling another operation is then a defect.

    Raises:
        TypeError: it reads only and names keys that it writes.
    """
    if reads_only and writes is not None:
        raise TypeError("an operation that reads only writes no keys")

    def mark(method: _Method) -> _Method:
        setattr(method, _MARK, (writes, timeout_s, reads_only))
        return method

    return mark


def listener(
    *,
    types: Iterable[EventType] = (),
    path: str = "",
    key: str = "",
    writes: Writes | None = None,
    timeout_s: float | None = None,
) -> Callable[[_Method], _Method]:
    """Marks an async method `(self, ctx, event) -> None` as a listener, which hears what has happened in the world.

    Each environment of the kind hears every matching event once, in order, from the revision on in which it was
    registered, one event at a time. What the method stages takes effect in one revision together with the note that the
    event was heard, so that its effect happens once, whatever fails. Nobody waits for a listener. One that raises or
    takes too long has no effect; an event LISTENER_FAILED says so, and it goes on with the next event.

    `types` empty = every type but LISTENER_FAILED. `path` is a glob relative to the environment: "" = the environment
    itself, "bids" = that child, "*" = its children, "**" = all below it; with a leading "/" it is absolute. `key` is a
    glob over keys. `writes(path, event)` gives the keys it may write; without it the listener has its whole environment
    to itself while it runs.
    """

    def mark(method: _Method) -> _Method:
        setattr(method, _LISTENER_MARK, (frozenset(map(int, types)), path, key, writes, timeout_s))
        return method

    return mark


def _arguments_of(method: Callable[..., Any]) -> type[BaseModel]:
    parameters = list(inspect.signature(method, eval_str=True).parameters.values())[1:]  # after ctx
    fields: dict[str, Any] = {
        parameter.name: (
            parameter.annotation,
            ... if parameter.default is inspect.Parameter.empty else parameter.default,
        )
        for parameter in parameters
    }
    return create_model(method.__name__, __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **fields)


def _invalid(name: str, error: ValidationError) -> WorldError:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    violations = tuple((".".join(map(str, one["loc"])) or "args_json", one["msg"]) for one in problems)
    invalid = InvalidRequest(Reason.INVALID_ARGUMENTS, violations[0][0], violations[0][1])
    invalid.violations = violations[:_VIOLATIONS_MAX]
    invalid.metadata = {"operation": name}
    return invalid
