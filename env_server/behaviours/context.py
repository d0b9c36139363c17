"""What an operation or listener sees and does: reads of the world, staged writes, and the only things it may await.

It may read any key of the world, also such as it did not declare, and sees the applied state of that moment without
its own staged writes. What it reads of keys that it holds stays as it is until it returns; anything else may change
while it awaits. Staged writes take effect together, as one revision, when it returns; an exception drops them.
"""

import json
import math
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from env_server.behaviours.behaviour import Target
from env_server.behaviours.view import View
from env_server.model.entries import Entry
from env_server.model.environments import AggregateValue, Declaration, EnvironmentState
from env_server.model.errors import OperationRefused
from env_server.model.operations import (
    BeginGeneration,
    Code,
    Delete,
    EnvironmentUpdate,
    Nearby,
    OpenGate,
    Placed,
    RegisterEnvironment,
    SetTimer,
    Write,
)
from env_server.model.timelines import MissedTicks
from env_server.model.values import Json


class Sleep(NamedTuple):
    """Instruction to whoever drives the operation: go on after this many seconds of the engine's clock."""

    seconds: float

    def __await__(self) -> Generator["Sleep", None, None]:
        yield self


class CallOperation(NamedTuple):
    """Instruction to whoever drives the operation: run another one, and go on with its result."""

    path: str
    operation: str
    arguments: Mapping[str, object]

    def __await__(self) -> Generator["CallOperation", Any, Any]:
        return (yield self)


class UndeclaredWrite(Exception):
    """A behaviour wrote a key that it did not declare: a defect of the behaviour."""


class Context:
    """One call of one operation, or one event heard by one listener."""

    def __init__(
        self,
        path: str,
        view: View,
        targets: list[Target],
        monotonic_ns: Callable[[], int] = lambda: 0,
        *,
        reads_only: bool = False,
    ) -> None:
        #: Path of the environment whose operation runs.
        self.path = path
        self.staged: list[Write] = []
        #: The world, without what was staged.
        self.view = view
        self._targets = set(targets)
        self._reads_only = reads_only
        self._monotonic_ns = monotonic_ns

    def get(self, key: str, path: str | None = None) -> Any:
        """An entry's value, JSON values parsed anew, so that they may be changed and staged; None when it is absent."""
        entry = self.view.entry(path or self.path, key)
        return None if entry is None else _parsed(entry.value)

    def entry(self, key: str, path: str | None = None) -> Entry | None:
        """An entry with its version and revisions."""
        return self.view.entry(path or self.path, key)

    def entries(self, path: str | None = None) -> Mapping[str, Entry]:
        """All entries of an environment, as a snapshot."""
        return self.view.entries(path or self.path)

    def items(self, key: str, from_sequence: int = 0, limit: int = 0, path: str | None = None) -> list[tuple[int, Any]]:
        """Items of a stream with their sequence numbers, JSON values parsed; `limit` 0 = all that are kept."""
        found = self.view.items(path or self.path, key, from_sequence, limit)
        return [(item.sequence, _parsed(item.value)) for item in found]

    def environment(self, path: str | None = None) -> EnvironmentState | None:
        """An environment's declarations and gate; None when it is absent."""
        return self.view.environment(path or self.path)

    def config(self, path: str | None = None) -> dict[str, Any]:
        """What an environment's config says, parsed anew; {} when it has none, or is absent."""
        found = self.view.environment(path or self.path)
        return {} if found is None else dict(json.loads(found.declaration.config.text or b"{}"))

    def aggregates(self, path: str | None = None) -> dict[str, AggregateValue]:
        """Aggregates by name."""
        return self.view.aggregates(path or self.path)

    def near(
        self,
        who: str | Iterable[float],
        *,
        radius: float | None = None,
        nearest: int = 0,
        adjacent: bool = False,
        path: str | None = None,
    ) -> list[str]:
        """Keys of the entries near one, which is left out itself, or near a position: nearest first, then in key order.

        Exactly one of `radius`, `nearest` and `adjacent` says how near; staged moves have not happened yet.

        Raises:
            WorldError: as a client's question: SPACE_NOT_FOUND, ENTRY_NOT_FOUND, NOT_PLACED, INVALID_POSITION, ...
        """
        key, position = (who, None) if isinstance(who, str) else ("", tuple(map(float, who)))
        asked = Nearby(position, radius=radius, nearest=nearest, adjacent=adjacent)
        return self.view.near(path or self.path, key, asked)

    def set(self, key: str, value: object, path: str | None = None, *, position: Iterable[float] | None = None) -> None:
        """Stages a value; dicts and lists become JSON. With `position`, its entry moves there, too."""
        kept: Any = Json.of(value) if isinstance(value, dict | list | tuple) else value
        if position is None:
            self._stage(path, key, Code.SET, kept)
        else:
            self._stage(path, key, Code.PLACE, Placed(kept, tuple(map(float, position))))

    def add(self, key: str, amount: int | float, path: str | None = None) -> None:
        """Stages an increment of a counter; the type of `amount`, int or float, must be that of the counter."""
        self._stage(path, key, Code.ADD, amount)

    def append(self, key: str, value: object, path: str | None = None) -> None:
        """Stages an item of a stream."""
        kept = Json.of(value) if isinstance(value, dict | list | tuple) else value
        self._stage(path, key, Code.APPEND, kept)

    def delete(self, key: str, path: str | None = None) -> None:
        """Stages a deletion; an absent entry makes the operation fail on return."""
        self._stage(path, key, Code.DELETE_ENTRY, Delete())

    def move(self, key: str, position: Iterable[float], path: str | None = None) -> None:
        """Stages a move of an entry that is there; an empty position takes it out of the space.

        Raises:
            TypeError, ValueError: these are no numbers.
        """
        self._stage(path, key, Code.MOVE, tuple(map(float, position)))

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
        if self._reads_only:
            raise UndeclaredWrite(f"{name!r} is emitted by an operation that reads only")
        self.staged.append(Write(self.path, name, Code.EMIT, Json.of(dict(document))))

    def sim_time_ns(self, path: str | None = None) -> int | None:
        """What the nearest clock of an environment shows, in nanoseconds of simulated time; None = there is none."""
        return self.view.time(path or self.path)

    def set_timer(
        self,
        name: str,
        *,
        at_ns: int | None = None,
        after_ns: int | None = None,
        every_ns: int = 0,
        missed: MissedTicks = MissedTicks.COALESCE,
        payload: object = None,
        if_absent: bool = False,
        path: str | None = None,
    ) -> None:
        """Stages a timer on the nearest clock, or the same one anew; exactly one of `at_ns` and `after_ns` is given.

        It fires by an event TIMER_FIRED of the environment, which a listener may hear. The name is among the keys that
        an operation declares. `payload` becomes JSON; None = there is none.
        """
        told = None if payload is None else Json.of(payload)
        asked = SetTimer(at_ns, after_ns, every_ns, missed, told, if_absent)
        self._stage(path, name, Code.SET_TIMER, asked)

    def cancel_timer(self, name: str, path: str | None = None) -> None:
        """Stages the end of a timer, if there is one of that name."""
        self._stage(path, name, Code.CANCEL_TIMER, Delete(if_present=True))

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

    def call(self, path: str, operation: str, /, **arguments: object) -> CallOperation:
        """Await it to run another operation, with a revision of its own, and get its result, JSON parsed.

        Only for an operation that declares no keys (`writes` returns nothing). The other one waits for its own keys,
        needs no slot of its own, and ends at the latest with this one's deadline, rolled back. What it did stays when
        this one fails afterwards; a caller who repeats this one repeats it too.

        Raises, where it is awaited:
            WrongState: NESTED_INVOKE: this operation holds keys, or is a listener.
            LimitExceeded: call_depth_max.
            WorldError: what the other one ended with.
        """
        return CallOperation(path, operation, arguments)

    def monotonic_ms(self) -> int:
        """Milliseconds of the server's clock, which never goes back while the server runs.

        What was noted before a restart cannot be compared with it: the clock may have begun anew.
        """
        return self._monotonic_ns() // 1_000_000

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


def _parsed(value: object) -> Any:
    return json.loads(value.text) if isinstance(value, Json) else value
