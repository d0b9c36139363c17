"""How a behaviour is written.

    class Tally(Behaviour):
        kind = "tally"

        @operation(writes=lambda path, by: [Target(path, "total")])
        async def add(self, ctx: Context, by: int = 1) -> int:
            total = (ctx.get("total") or 0) + by
            ctx.set("total", total)
            return total

The class is installed on the server, registered by the entry point group `ecumene.behaviours` or `--behaviour
module:Class`. It holds no state: state lives in the world. Arguments are checked against the annotations before the
operation starts.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from env_server.model.errors import InvalidRequest, Reason, WorldError
from env_server.model.values import Json

_MARK = "__ecumene_operation__"
_VIOLATIONS_MAX = 16
_Method = TypeVar("_Method", bound=Callable[..., Awaitable[Any]])


class Target(NamedTuple):
    """A key that an operation writes; None = the whole environment, "" = its declarations and children."""

    path: str
    key: str | None


Writes = Callable[..., Iterable[Target]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a behaviour."""

    name: str
    method: Callable[..., Awaitable[Any]]
    arguments: type[BaseModel]
    writes: Writes | None
    timeout_s: float | None

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
        if self.writes is None:
            return [Target(path, None)]
        return list(self.writes(path, **arguments))


class Behaviour:
    """Base of behaviours: `kind` names the kind of environment, methods marked `@operation` are its operations."""

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


def operation(*, writes: Writes | None = None, timeout_s: float | None = None) -> Callable[[_Method], _Method]:
    """Marks an async method `(self, ctx, **arguments) -> JSON value` as an operation.

    `writes(path, **arguments)` gives the keys it may write, known at admission; without it the operation has its whole
    environment to itself. `timeout_s` None = the server's default.
    """

    def mark(method: _Method) -> _Method:
        setattr(method, _MARK, (writes, timeout_s))
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
