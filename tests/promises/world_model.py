"""What a world is, said again as simply as possible: a dict of environments, a dict of entries, a list of events.

No queues, no groups, no storage. Outcomes are reduced to what a caller can act on.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from env_server.model.changes import EventType
from env_server.model.errors import Reason

ITEMS_MAX = 3


class Said(NamedTuple):
    """What an op came to: a revision and details, or a reason."""

    reason: Reason | None = None
    revision: int = 0
    version: int = 0
    value: Any = None
    sequence: int = 0
    parts: tuple[Said, ...] = ()


class Told(NamedTuple):
    """One event."""

    revision: int
    type: int
    path: str
    key: str
    version: int
    value: Any = None


class Ask(NamedTuple):
    """One op: what, where, and beside it a version to expect or an identity of its own."""

    verb: str
    path: str
    key: str = ""
    value: Any = None
    version: int = 0
    producer: str = ""
    seq: int = 0
    parts: tuple[Ask, ...] = ()


class RefusedError(Exception):
    """An op fails for this reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.name)
        self.reason = reason


@dataclass
class Entry:
    """An entry; the value of a stream is (next sequence, kept items)."""

    kind: str
    value: Any
    version: int
    modified: int


@dataclass
class Model:
    """The world. `apply` is one op."""

    revision: int = 1
    environments: dict[str, int] = field(default_factory=lambda: {"/": 1})
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    events: list[Told] = field(default_factory=lambda: [Told(1, EventType.ENVIRONMENT_REGISTERED, "/", "", 1)])
    producers: dict[str, tuple[int, Said]] = field(default_factory=dict)

    def copy(self) -> Model:
        """A snapshot."""
        return deepcopy(self)

    def apply(self, ask: Ask) -> Said:
        """One op and what it came to."""
        if ask.producer:
            last, said = self.producers.get(ask.producer, (0, Said()))
            if ask.seq == last:
                return said
            if ask.seq < last:
                return Said(Reason.SEQUENCE_PASSED)
        said = self._try(ask)
        if ask.producer:
            self.producers[ask.producer] = (ask.seq, said)
        return said

    def _try(self, ask: Ask) -> Said:
        before = deepcopy((self.environments, self.entries)), len(self.events)
        try:
            if ask.verb == "transact":
                parts = tuple(self._do(part) for part in ask.parts)
                said = Said(None, self.revision + 1, parts=parts)
            else:
                said = self._do(ask)
        except RefusedError as refused:
            (self.environments, self.entries), events = before
            del self.events[events:]
            return Said(refused.reason)
        self.revision += 1
        return said

    def _do(self, ask: Ask) -> Said:
        if ask.verb == "register":
            return self._register(ask.path)
        if ask.path not in self.environments:
            raise RefusedError(Reason.ENVIRONMENT_NOT_FOUND)
        if ask.verb in ("unregister", "unregister all"):
            return self._unregister(ask.path, ask.verb == "unregister all")
        found = self.entries.get((ask.path, ask.key))
        if ask.version and (found is None or found.version != ask.version):
            raise RefusedError(Reason.PRECONDITION_FAILED)
        if ask.verb == "delete":
            return self._delete(ask, found)
        return self._change(ask, found)

    def _register(self, path: str) -> Said:
        if path in self.environments:
            raise RefusedError(Reason.ENVIRONMENT_EXISTS)
        if (path.rpartition("/")[0] or "/") not in self.environments:
            raise RefusedError(Reason.ENVIRONMENT_NOT_FOUND)
        self.environments[path] = 1
        self._tell(EventType.ENVIRONMENT_REGISTERED, path, "", 1)
        return Said(None, self.revision + 1, 1)

    def _unregister(self, path: str, recursive: bool) -> Said:
        below = sorted(other for other in self.environments if other.startswith(path + "/"))
        if below and not recursive:
            raise RefusedError(Reason.HAS_CHILDREN)
        for gone in (path, *below):
            self._tell(EventType.ENVIRONMENT_DELETED, gone, "", self.environments.pop(gone) + 1)
            self.entries = {name: entry for name, entry in self.entries.items() if name[0] != gone}
        return Said(None, self.revision + 1, 0)

    def _delete(self, ask: Ask, found: Entry | None) -> Said:
        if found is None:
            raise RefusedError(Reason.ENTRY_NOT_FOUND)
        del self.entries[ask.path, ask.key]
        self._tell(EventType.ENTRY_DELETED, ask.path, ask.key, found.version + 1)
        return Said(None, self.revision + 1, 0)

    def _change(self, ask: Ask, found: Entry | None) -> Said:
        kind = {"set": "value", "add": "counter", "append": "stream"}[ask.verb]
        if found is not None and found.kind != kind:
            raise RefusedError(Reason.ENTRY_KIND_MISMATCH)
        version = 1 if found is None else found.version + 1
        told, sequence, answered = ask.value, 0, None
        value = ask.value
        if kind == "counter":
            told = answered = value = ask.value + (0 if found is None else found.value)
        elif kind == "stream":
            sequence, items = (1, []) if found is None else found.value
            value = (sequence + 1, [*items, (sequence, ask.value)][-ITEMS_MAX:])
        self.entries[ask.path, ask.key] = Entry(kind, value, version, self.revision + 1)
        event = {"value": EventType.ENTRY_SET, "counter": EventType.ENTRY_INCREMENTED}.get(
            kind, EventType.ENTRY_APPENDED
        )
        self._tell(event, ask.path, ask.key, version, told)
        return Said(None, self.revision + 1, version, answered, sequence)

    def _tell(self, type_: EventType, path: str, key: str, version: int, value: Any = None) -> None:
        self.events.append(Told(self.revision + 1, int(type_), path, key, version, value))
