"""Which behaviours a server has: its own, those of entry points, those named at start."""

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from env_server.behaviours.behaviour import Behaviour, Operation
from env_server.model.environments import BASIC
from env_server.model.errors import NotFound, Reason

ENTRY_POINT_GROUP = "ecumene.behaviours"


class BehaviourError(Exception):
    """A behaviour cannot be loaded; the message says which and why."""


class Behaviours:
    """Installed behaviours by kind."""

    def __init__(self, behaviours: list[Behaviour]) -> None:
        self._operations: dict[str, dict[str, Operation]] = {BASIC: {}}
        self._concurrency: dict[str, int] = {BASIC: 0}
        for behaviour in behaviours:
            if behaviour.kind in self._operations:
                raise BehaviourError(f"two behaviours claim the kind {behaviour.kind!r}")
            self._operations[behaviour.kind] = behaviour.operations()
            self._concurrency[behaviour.kind] = behaviour.concurrency_max

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

    def concurrency_max(self, kind: str) -> int:
        """Operations of one environment of the kind that may run at a time; 0 = unbounded."""
        return self._concurrency[kind]


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
