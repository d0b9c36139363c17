"""Events as they travel, in columns: a batch is a view, a column is a list once it is touched, an event a row."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice, repeat
from typing import Any

from env_api.v1 import events_pb2

from ecumene.client.model import EventType, Value
from ecumene.client.values import decode_json

_NULL, _BOOL, _INT, _DOUBLE, _STRING, _BYTES, _JSON = range(1, 8)


class EventBatch:
    """Events of whole revisions, in order. Element i of every column belongs to event i."""

    def __init__(self, frame: events_pb2.EventFrame, world: str) -> None:
        self._frame = frame
        self.world = world

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} events>"

    def __len__(self) -> int:
        return self._frame.count

    def __iter__(self) -> Iterator[Event]:
        return map(Event, repeat(self), range(self._frame.count))

    def __getitem__(self, row: int) -> Event:
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        return Event(self, row % len(self))

    @property
    def through_revision(self) -> int:
        """Every matching event up to this revision has now been read: a later watch goes on at the next one."""
        return self._frame.through_revision

    @property
    def synced_revision(self) -> int:
        """Not 0 in the batch that ends the initial state: it was the state at this revision."""
        return self._frame.synced_revision

    @property
    def conflated(self) -> bool:
        """Whether events were left out in favour of later ones of the same key (conflating watches only)."""
        return self._frame.conflated

    @cached_property
    def revisions(self) -> list[int]:
        """Revision of each event."""
        frame = self._frame
        if not frame.revisions:
            return list(range(frame.first_revision, frame.first_revision + frame.count))
        return _spread(frame.revisions, frame.count, 0)

    @cached_property
    def indexes(self) -> list[int]:
        """Place of each event within its revision, from 0."""
        return _spread(self._frame.indexes, self._frame.count, 0)

    @cached_property
    def types(self) -> list[int]:
        """Type of each event, as a number of EventType."""
        return _spread(self._frame.types, self._frame.count, 0)

    @cached_property
    def paths(self) -> list[str]:
        """Path of each event's environment."""
        table = self._frame.paths[:]
        if len(table) == 1:
            return table * self._frame.count
        return [table[place] for place in _spread(self._frame.path, self._frame.count, 0)] if table else []

    @cached_property
    def keys(self) -> list[str]:
        """Key of each event; "" for events of the environment itself."""
        return _spread(self._frame.keys, self._frame.count, "")

    @cached_property
    def values(self) -> list[Value]:
        """Value of each event; JSON documents are decoded now. None where there is none."""
        frame = self._frame
        kinds = _spread(frame.value_kinds, frame.count, 0)
        first = kinds[0] if kinds else 0
        if first == _DOUBLE and len(frame.doubles) == frame.count:
            return list[Value](frame.doubles)  # the commonest batch: each event has a double
        readers: dict[int, Iterator[Value]] = {0: repeat(None)}
        for column, members in _COLUMNS_OF_KINDS:
            rows = sum(kinds.count(kind) for kind in members) if members.intersection(kinds) else 0
            reader = iter(_spread(getattr(frame, column), rows, _DEFAULTS[column]))
            readers.update(dict.fromkeys(members, reader))
        return [_read(kind, next(readers[kind])) if kind in readers else None for kind in kinds]

    @cached_property
    def versions(self) -> list[int]:
        """Version after each change; the one before is one less, 0 = it did not exist."""
        return _spread(self._frame.versions, self._frame.count, 0)

    @cached_property
    def producers(self) -> list[str]:
        """Producer that sent each change."""
        return _spread(self._frame.producers, self._frame.count, "")

    @cached_property
    def producer_seqs(self) -> list[int]:
        """Producer's number of each change."""
        return _spread(self._frame.producer_seqs, self._frame.count, 0)

    @cached_property
    def actors(self) -> list[str]:
        """Claim about who acted."""
        return _spread(self._frame.actors, self._frame.count, "")

    @cached_property
    def causes(self) -> list[str]:
        """Id of the event, or name of the thing, that led to each change."""
        return _spread(self._frame.causes, self._frame.count, "")

    @cached_property
    def principals(self) -> list[str]:
        """Who it was, as the server knows them."""
        return _spread(self._frame.principals, self._frame.count, "")

    @cached_property
    def wall_times_ns(self) -> list[int]:
        """Wall time of each commit, in ns since 1970."""
        return _spread(self._frame.wall_times_ns, self._frame.count, 0)

    @cached_property
    def sim_times_ns(self) -> list[int | None]:
        """Time of the nearest clock at each event; None where there is no clock."""
        frame = self._frame
        timed = _spread(frame.timed, frame.count, False)
        times = _spread(frame.sim_times_ns, frame.count, 0)
        if all(timed):
            return times
        return [time_ns if has_clock else None for time_ns, has_clock in zip(times, timed, strict=True)]

    @cached_property
    def positions(self) -> dict[int, tuple[float, ...]]:
        """Row → where the entry is, for moves and rows of the initial state; others, and those that left, have none."""
        frame = self._frame
        if not frame.coordinates:
            return {}
        rows = frame.position_rows[:] or range(frame.count)
        coordinates = iter(frame.coordinates)
        dimensions = _spread(frame.dimensions, len(rows), 0)
        return {row: tuple(islice(coordinates, count)) for row, count in zip(rows, dimensions, strict=True)}

    @cached_property
    def changed_fields(self) -> dict[int, tuple[str, ...]]:
        """Row → see Event.changed_fields, for the rows that have any."""
        return {changed.row: tuple(changed.fields) for changed in self._frame.changed_fields}


class Event:
    """One event: a row of a batch. It keeps its batch alive; copy what is needed for long."""

    __slots__ = ("_batch", "_row")

    def __init__(self, batch: EventBatch, row: int) -> None:
        self._batch = batch
        self._row = row

    @property
    def revision(self) -> int:
        """The change's place in the one order of all changes of the world."""
        return self._batch.revisions[self._row]

    @property
    def id(self) -> str:
        """Unique for ever within a history: "world/revision.index", what a `cause` names; "" in the initial state."""
        batch, row = self._batch, self._row
        if batch.types[row] == EventType.INITIAL:
            return ""
        return f"{batch.world}/{batch.revisions[row]}.{batch.indexes[row]}"

    @property
    def type(self) -> EventType:
        """What happened."""
        return EventType(self._batch.types[self._row])

    @property
    def path(self) -> str:
        """Path of the environment."""
        return self._batch.paths[self._row]

    @property
    def key(self) -> str:
        """Key of the entry, gate or aggregate; "" for the environment itself."""
        return self._batch.keys[self._row]

    @property
    def value(self) -> Value:
        """New value, new sum, or appended item; what an environment declares now, see the contract's EventType."""
        return self._batch.values[self._row]

    @property
    def version(self) -> int:
        """Version after the change."""
        return self._batch.versions[self._row]

    @property
    def producer(self) -> str:
        """Producer that sent the change."""
        return self._batch.producers[self._row]

    @property
    def producer_seq(self) -> int:
        """The producer's number of the change."""
        return self._batch.producer_seqs[self._row]

    @property
    def actor(self) -> str:
        """Claim about who acted."""
        return self._batch.actors[self._row]

    @property
    def cause(self) -> str:
        """Id of the event, or name of the thing, that led to the change."""
        return self._batch.causes[self._row]

    @property
    def principal(self) -> str:
        """Who it was, as the server knows them."""
        return self._batch.principals[self._row]

    @property
    def wall_time_ns(self) -> int:
        """Wall time of the commit."""
        return self._batch.wall_times_ns[self._row]

    @property
    def sim_time_ns(self) -> int | None:
        """Time of the nearest clock; None where there is none."""
        return self._batch.sim_times_ns[self._row]

    @property
    def position(self) -> tuple[float, ...]:
        """ENTRY_MOVED and INITIAL: where the entry is; () = nowhere."""
        return self._batch.positions.get(self._row, ())

    @property
    def changed_fields(self) -> tuple[str, ...]:
        """Top-level fields that a merge named, or parts of an environment, as "labels", that an update was about."""
        return self._batch.changed_fields.get(self._row, ())

    def __repr__(self) -> str:
        return f"<Event {self.revision} {self.type.name} {self.path} {self.key!r}>"


_COLUMNS_OF_KINDS: tuple[tuple[str, frozenset[int]], ...] = (
    ("ints", frozenset({_NULL, _BOOL, _INT})),
    ("doubles", frozenset({_DOUBLE})),
    ("strings", frozenset({_STRING})),
    ("blobs", frozenset({_BYTES, _JSON})),
)
_DEFAULTS: dict[str, Any] = {"ints": 0, "doubles": 0.0, "strings": "", "blobs": b""}


def _spread(column: Any, count: int, default: Any) -> list[Any]:
    """A column with one element a row: as sent, or one element for all, or the default for all."""
    sent = len(column)
    if sent == count:
        spread: list[Any] = column[:]
        return spread
    return [column[0] if sent else default] * count


def _read(kind: int, raw: Any) -> Value:
    if kind == _NULL:
        return None
    if kind == _BOOL:
        return bool(raw)
    if kind == _JSON:
        return decode_json(raw)
    value: Value = raw
    return value
