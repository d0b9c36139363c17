"""What a world is, said again as simply as possible: a dict of environments, a dict of entries, a list of events.

No queues, no groups, no storage. Outcomes are reduced to what a caller can act on.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from env_server.model.changes import EventType
from env_server.model.errors import Reason

ITEMS_MAX = 3
REGISTRATIONS = ("register", "ensure environment")
CHANGES = {"set": "value", "add": "counter", "append": "stream", "merge": "value"}
EVENTS = {
    "value": EventType.ENTRY_SET,
    "member": EventType.ENTRY_SET,
    "counter": EventType.ENTRY_INCREMENTED,
    "stream": EventType.ENTRY_APPENDED,
}


class Document(NamedTuple):
    """A JSON value, by its text with sorted keys."""

    text: str

    @staticmethod
    def of(content: Any) -> Document:
        """Of a parsed one."""
        return Document(json.dumps(content, sort_keys=True))


def declared(**aggregates: Any) -> Document:
    """What the registration of an environment tells."""
    return Document.of({"kind": "basic", "labels": {}, "config": {}, "aggregates": aggregates, "gates": {}})


ROOT_DECLARED = declared()
SUM = {"function": "sum", "scope": "entries"}
DECLARED = declared(sum=SUM)
SIDE, CAPACITY, HOME = 4, 2, ((0, 0), (1, 1))
"""Of the grid that environments have where there are moves: its sides, what a cell holds, a region."""
SPACE = {
    "grid": {"width": SIDE, "height": SIDE, "neighbourhood": "moore", "capacity": CAPACITY},
    "regions": {"home": {"box": {"low": [0.0, 0.0], "high": [1.0, 1.0]}}},
    "proximities": {"met": {"distance": 1.0}},
}
SPATIAL = Document.of({**json.loads(DECLARED.text), "space": SPACE})


class Said(NamedTuple):
    """What an op came to: a revision and details, or a reason."""

    reason: Reason | None = None
    revision: int = 0
    version: int = 0
    value: Any = None
    sequence: int = 0
    parts: tuple[Said, ...] = ()
    otherwise: bool = False


class Told(NamedTuple):
    """One event."""

    revision: int
    type: int
    path: str
    key: str
    version: int
    value: Any = None


class Ask(NamedTuple):
    """One op: what, where, and beside it a version to expect or an identity of its own.

    A transaction has parts, what to test before (path, key and version of each), and parts to take instead.
    """

    verb: str
    path: str
    key: str = ""
    value: Any = None
    version: int = 0
    producer: str = ""
    seq: int = 0
    parts: tuple[Ask, ...] = ()
    tests: tuple[tuple[str, str, int], ...] = ()
    otherwise: tuple[Ask, ...] = ()


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
    lease: int = 0
    position: tuple[float, ...] = ()


@dataclass
class Model:
    """The world. `apply` is one op."""

    revision: int = 1
    environments: dict[str, int] = field(default_factory=lambda: {"/": 1})
    entries: dict[tuple[str, str], Entry] = field(default_factory=dict)
    events: list[Told] = field(
        default_factory=lambda: [Told(1, EventType.ENVIRONMENT_REGISTERED, "/", "", 1, ROOT_DECLARED)]
    )
    producers: dict[str, tuple[int, Said]] = field(default_factory=dict)
    items_max: int = ITEMS_MAX
    declared: Document = DECLARED
    """By all environments but the root; SPATIAL = with a space."""

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
            said = self._transact(ask) if ask.verb == "transact" else self._do(ask)
        except RefusedError as refused:
            (self.environments, self.entries), events = before
            del self.events[events:]
            return Said(refused.reason)
        self.revision += len(self.events) > before[1]
        return said

    def _transact(self, ask: Ask) -> Said:
        parts, otherwise, events = ask.parts, False, len(self.events)
        for path, key, version in ask.tests:
            if path not in self.environments:
                raise RefusedError(Reason.ENVIRONMENT_NOT_FOUND)
            found = self.entries.get((path, key))
            if (0 if found is None else found.version) != version:
                if not ask.otherwise:
                    raise RefusedError(Reason.PRECONDITION_FAILED)
                parts, otherwise = ask.otherwise, True
                break
        done = tuple(self._do(part) for part in parts)
        return Said(None, self.revision + (len(self.events) > events), parts=done, otherwise=otherwise)

    def _do(self, ask: Ask) -> Said:
        if ask.verb in REGISTRATIONS:
            return self._register(ask.path, ask.verb == "ensure environment")
        if ask.path not in self.environments:
            raise RefusedError(Reason.ENVIRONMENT_NOT_FOUND)
        if ask.verb in ("unregister", "unregister all"):
            return self._unregister(ask.path, ask.verb == "unregister all")
        found = self.entries.get((ask.path, ask.key))
        if ask.version and (found is None or found.version != ask.version):
            raise RefusedError(Reason.PRECONDITION_FAILED)
        if ask.verb == "read":
            if found is None:
                raise RefusedError(Reason.ENTRY_NOT_FOUND)
            return Said(None, found.modified, found.version, None if found.kind == "stream" else found.value)
        if ask.verb in ("delete", "drop"):
            return self._delete(ask, found)
        if ask.verb in ("move", "place", "near"):
            return self._go(ask, found)
        if ask.verb in ("create", "ensure"):
            return self._create(ask, found)
        return self._change(ask, found)

    def _register(self, path: str, if_absent: bool) -> Said:
        if path in self.environments:
            if if_absent:
                return Said(None, self.revision, self.environments[path])
            raise RefusedError(Reason.ENVIRONMENT_EXISTS)
        if (path.rpartition("/")[0] or "/") not in self.environments:
            raise RefusedError(Reason.ENVIRONMENT_NOT_FOUND)
        self.environments[path] = 1
        self._tell(EventType.ENVIRONMENT_REGISTERED, path, "", 1, self.declared)
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
            if ask.verb == "drop":
                return Said(None, self.revision)
            raise RefusedError(Reason.ENTRY_NOT_FOUND)
        del self.entries[ask.path, ask.key]
        event = EventType.MEMBER_LEFT if found.kind == "member" else EventType.ENTRY_DELETED
        self._tell(event, ask.path, ask.key, found.version + 1)
        self._cross(ask.path, ask.key, found.position, ())
        return Said(None, self.revision + 1, 0)

    def _go(self, ask: Ask, found: Entry | None) -> Said:
        has_space = ask.path != "/" and self.declared == SPATIAL
        if not has_space:
            raise RefusedError(Reason.SPACE_NOT_FOUND)
        if found is None and ask.verb != "place":
            raise RefusedError(Reason.ENTRY_NOT_FOUND)
        if ask.verb == "near":
            if found is None or not found.position:
                raise RefusedError(Reason.NOT_PLACED)
            near = {key: far for key, far in self._others(ask.path, ask.key, found.position).items() if far <= 2}
            return Said(None, self.revision, value=tuple(sorted(near, key=lambda key: (near[key], key))))
        value, position = ask.value if ask.verb == "place" else (None, ask.value)
        before = found.position if found is not None else ()
        if position:
            if max(position) >= SIDE:
                raise RefusedError(Reason.INVALID_POSITION)
            there = [far for far in self._others(ask.path, ask.key, position).values() if far == 0]
            if position != before and len(there) >= CAPACITY:
                raise RefusedError(Reason.CELL_FULL)
        if ask.verb == "place":
            self._change(ask._replace(verb="set", value=value), found)
        entry = self.entries[ask.path, ask.key]
        entry.position, entry.version, entry.modified = position, entry.version + 1, self.revision + 1
        self._tell(EventType.ENTRY_MOVED, ask.path, ask.key, entry.version, position)
        self._cross(ask.path, ask.key, before, position)
        return Said(None, self.revision + 1, entry.version)

    def _cross(self, path: str, key: str, before: tuple[float, ...], after: tuple[float, ...]) -> None:
        """Tells who enters or leaves the region, and whose neighbourhood."""

        def is_home(position: tuple[float, ...]) -> bool:
            return bool(position) and max(position) <= HOME[1][0]

        if is_home(before) is not is_home(after):
            type_ = EventType.REGION_ENTERED if is_home(after) else EventType.REGION_LEFT
            self._tell(type_, path, key, 0, Document.of({"region": "home"}))
        was = {other for other, far in self._others(path, key, before).items() if far <= 1}
        now = {other for other, far in self._others(path, key, after).items() if far <= 1}
        for other in sorted(was ^ now):
            type_ = EventType.PROXIMITY_ENTERED if other in now else EventType.PROXIMITY_LEFT
            for one, two in ((key, other), (other, key)):
                self._tell(type_, path, one, 0, Document.of({"proximity": "met", "other": two}))

    def _others(self, path: str, key: str, position: tuple[float, ...]) -> dict[str, float]:
        """How far away the others are."""
        return {
            other: max(abs(a - b) for a, b in zip(position, entry.position, strict=True))
            for (place, other), entry in self.entries.items()
            if place == path and other != key and position and entry.position
        }

    def _create(self, ask: Ask, found: Entry | None) -> Said:
        if found is None:
            return self._put(ask, "value", None, ask.value, ask.value)
        if ask.verb == "create":
            raise RefusedError(Reason.ENTRY_EXISTS)
        if found.kind != "value":
            raise RefusedError(Reason.ENTRY_KIND_MISMATCH)
        return Said(None, self.revision, found.version)

    def _change(self, ask: Ask, found: Entry | None) -> Said:
        kind = CHANGES[ask.verb]
        if found is not None and found.kind == "member" and kind == "value":
            kind = "member"
        if found is not None and found.kind != kind:
            raise RefusedError(Reason.ENTRY_KIND_MISMATCH)
        if ask.verb == "merge":
            if found is not None and not isinstance(found.value, Document):
                raise RefusedError(Reason.ENTRY_KIND_MISMATCH)
            merged = Document.of(merge({} if found is None else json.loads(found.value.text), ask.value))
            return self._put(ask, kind, found, merged, merged)
        if kind == "counter":
            if found is not None and type(found.value) is not type(ask.value):
                raise RefusedError(Reason.ENTRY_KIND_MISMATCH)
            total = ask.value + (0 if found is None else found.value)
            return self._put(ask, kind, found, total, total)._replace(value=total)
        if kind == "stream":
            sequence, items = (1, []) if found is None else found.value
            value = (sequence + 1, [*items, (sequence, ask.value)][-self.items_max :])
            return self._put(ask, kind, found, value, ask.value)._replace(sequence=sequence)
        return self._put(ask, kind, found, ask.value, ask.value)

    def _put(self, ask: Ask, kind: str, found: Entry | None, value: Any, told: Any, lease: int = 0) -> Said:
        version = 1 if found is None else found.version + 1
        lease = lease if found is None else found.lease
        position = () if found is None else found.position
        self.entries[ask.path, ask.key] = Entry(kind, value, version, self.revision + 1, lease, position)
        event = EventType.MEMBER_JOINED if kind == "member" and found is None else EVENTS[kind]
        self._tell(event, ask.path, ask.key, version, told)
        return Said(None, self.revision + 1, version)

    def _tell(self, type_: EventType, path: str, key: str, version: int, value: Any = None) -> None:
        self.events.append(Told(self.revision + 1, int(type_), path, key, version, value))


def merge(target: Any, patch: dict[str, Any]) -> Any:
    """RFC 7396, for patches that are objects."""
    merged = dict(target) if isinstance(target, dict) else {}
    for name, part in patch.items():
        if part is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), part) if isinstance(part, dict) else part
    return merged


def read_again(model: Model, frame: list[Ask], said: list[Said]) -> list[Said]:
    """What a repeated frame is answered: its first outcomes, and what its reads see now."""
    return [model.apply(ask) if ask.verb in ("read", "near") else one for ask, one in zip(frame, said, strict=True)]


def picture_of_model(model: Model) -> dict[str, Any]:
    """Everything that queries can tell: the revision, and by path the entries with value, version and revision."""
    seen: dict[str, Any] = {"revision": model.revision, **{path: {} for path in model.environments}}
    for (path, key), entry in model.entries.items():
        seen[path][key] = (entry.value, entry.version, entry.modified)
    return seen
