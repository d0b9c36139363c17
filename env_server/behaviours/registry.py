"""Which behaviours a server has: its own, those of entry points, those named at start."""

import inspect
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from env_server.behaviours.behaviour import Behaviour, Listener, Operation
from env_server.behaviours.description import KindDescription, describe_kind
from env_server.model.environments import BASIC
from env_server.model.errors import NotFound, Reason

ENTRY_POINT_GROUP = "ecumene.behaviours"


class BehaviourError(Exception):
    """A behaviour cannot be loaded; the message says which and why."""


class Behaviours:
    """Installed behaviours by kind."""

    def __init__(self, behaviours: list[Behaviour]) -> None:
        """Raises BehaviourError: two claim one kind, or a method can never be run."""
        self._operations: dict[str, dict[str, Operation]] = {BASIC: {}}
        self._concurrency: dict[str, int] = {BASIC: 0}
        self._listeners: dict[str, tuple[Listener, ...]] = {}
        self._installed: dict[str, Behaviour] = {}
        for behaviour in behaviours:
            if behaviour.kind in self._operations:
                both = " and ".join(_name_class(one) for one in (self._installed.get(behaviour.kind), behaviour))
                raise BehaviourError(f"two behaviours claim the kind {behaviour.kind!r}: {both}")
            self._operations[behaviour.kind] = behaviour.operations()
            self._concurrency[behaviour.kind] = behaviour.concurrency_max
            heard = behaviour.listeners()
            callees: list[Operation | Listener] = [*self._operations[behaviour.kind].values(), *heard.values()]
            for callee in callees:
                _check(behaviour.kind, callee)
            if heard:
                self._listeners[behaviour.kind] = tuple(heard.values())
            self._installed[behaviour.kind] = behaviour

    def check_kind(self, kind: str) -> None:
        """Accepts a kind that is installed.

        Raises:
            NotFound: KIND_NOT_FOUND.
        """
        if kind not in self._operations:
            raise NotFound(Reason.KIND_NOT_FOUND, kind=kind)

    def find(self, kind: str, operation: str) -> Operation:
        """An operation of a kind.

        Raises:
            NotFound: KIND_NOT_FOUND (the world was made by a server with more behaviours) or OPERATION_NOT_FOUND.
        """
        self.check_kind(kind)
        found = self._operations[kind].get(operation)
        if found is None:
            raise NotFound(Reason.OPERATION_NOT_FOUND, kind=kind, operation=operation)
        return found

    @property
    def listeners(self) -> Mapping[str, tuple[Listener, ...]]:
        """The listeners of each kind that has any."""
        return self._listeners

    def describe(self, kind: str = "") -> list[KindDescription]:
        """What a kind, or every kind, offers; by name.

        Raises:
            NotFound: KIND_NOT_FOUND.
        """
        if kind:
            self.check_kind(kind)
        return [
            describe_kind(name, self._installed.get(name)) for name in sorted(self._operations) if kind in ("", name)
        ]

    def concurrency_max(self, kind: str) -> int:
        """Operations of one environment of the kind that may run at a time; 0 = unbounded."""
        return self._concurrency[kind]


def _name_class(behaviour: Behaviour | None) -> str:
    """`module:Class`, as on the command line; the basic kind has none."""
    return f"{type(behaviour).__module__}:{type(behaviour).__qualname__}" if behaviour else "the server itself"


def _check(kind: str, callee: Operation | Listener) -> None:
    """Refuses what could never be run, before anybody calls it."""
    what = f"{callee.name!r} of the behaviour {kind!r}"
    if not inspect.iscoroutinefunction(callee.method):
        raise BehaviourError(f"{what} must be written with `async def`")
    if isinstance(callee, Listener):
        try:
            inspect.signature(callee.method).bind(None, event=None)
        except TypeError:
            raise BehaviourError(f"{what} is a listener: its parameters are (self, ctx, event)") from None


def load(names: list[str]) -> Behaviours:
    """All entry points and the classes named `module:Class`.

    Raises:
        BehaviourError: one cannot be imported or is no behaviour.
    """
    found: dict[str, Any] = {point.value: point.load() for point in entry_points(group=ENTRY_POINT_GROUP)}
    for name in names:
        module, _, attribute = name.partition(":")
        if not module or not attribute:
            raise BehaviourError(f"behaviour {name!r} cannot be loaded: write module:Class")
        try:
            found[name] = getattr(import_module(module), attribute)
        except (ImportError, AttributeError, ValueError) as error:
            raise BehaviourError(f"behaviour {name!r} cannot be loaded: {error}") from error
    for name, loaded in found.items():
        if not (isinstance(loaded, type) and issubclass(loaded, Behaviour) and hasattr(loaded, "kind")):
            raise BehaviourError(f"{name!r} is no behaviour: it must subclass Behaviour and name its kind")
    return Behaviours([loaded() for loaded in found.values()])
