"""Commit groups as log records, and back: the only module here that knows generated code.

Columns follow the rule of the contract: empty = the default for all rows, one element = the same for all rows,
otherwise one element a row. Hot: every change of the world goes through `encode_record` on the loop's thread, so the
work is per column and the loops are those of list.count, set and protobuf's own constructors.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from math import copysign
from typing import Any, Final, TypeVar

from env_storage.v1.record_pb2 import Fact as FactMessage
from env_storage.v1.record_pb2 import FrameOutcome, Outcome, Record, RowExtra
from env_storage.v1.record_pb2 import SentRows as SentMessage
from google.protobuf.message import DecodeError

from env_server.model.changes import Changes, Extra, Fact, FactKind, KeptAnswer, KeptOutcome, Place, SentRows
from env_server.model.spaces import Position
from env_server.model.values import KIND_OF, NOTHING, Json, Kind, Nothing, Value
from env_server.storage.declarations import decode_declaration, encode_declaration
from env_server.storage.errors import DataLoss
from env_server.storage.outcomes import decode_answer, decode_outcome, encode_answer, encode_outcome

RECORD_FORMAT: Final = 1

_NULL: Final = int(Kind.NULL)
_BOOL: Final = int(Kind.BOOL)
_INT: Final = int(Kind.INT)
_DOUBLE: Final = int(Kind.DOUBLE)
_STRING: Final = int(Kind.STRING)
_BYTES: Final = int(Kind.BYTES)
_JSON: Final = int(Kind.JSON)
_POSITION: Final = 8
"""Of the new position of a move, which is no value."""
_STORED_KIND_OF: Final = {**KIND_OF, tuple: _POSITION}
_Stored = Value | Nothing | Position

_Element = TypeVar("_Element")
# What a column of another writer may lead to; the checksum has spoken already, so these are defects, not flipped bytes.
_NONSENSE: Final = (ValueError, KeyError, TypeError, IndexError, StopIteration)
_encode_labels = json.JSONEncoder(separators=(",", ":")).encode


def encode_record(changes: Changes) -> bytes:
    """The group as bytes; `size_bytes` and `views` are not part of it.

    Raises:
        ValueError: revisions without rows, which could not be told apart from rows of defaults.
        TypeError: a value, outcome or answer of a kind that is not stored.
    """
    places = changes.places
    record = Record(
        format=RECORD_FORMAT,
        number=changes.number,
        base_revision=changes.base_revision,
        last_revision=changes.last_revision,
        wall_time_ns=changes.wall_ns,
        environment_numbers=[place.number for place in places],
        paths=[place.path for place in places],
    )
    timed = [(index, place.sim_time_ns) for index, place in enumerate(places) if place.sim_time_ns is not None]
    if timed:
        record.timed_places.extend([index for index, _ in timed])
        record.place_times_ns.extend([time_ns for _, time_ns in timed])
    if any(place.labels for place in places):
        record.place_labels.extend(_pack([_encode_labels(place.labels).encode() for place in places], b"{}"))
    if changes.keys:
        _encode_rows(changes, record)
    elif changes.last_revision != changes.base_revision:
        raise ValueError(f"record {changes.number} takes revisions but has no rows")
    if changes.outcomes:
        record.outcomes.extend(
            [
                Outcome(producer=producer, producer_seq=seq, outcome=encode_outcome(outcome))
                for producer, seq, outcome in changes.outcomes
            ]
        )
    if changes.answers:
        record.frames.extend(
            [
                FrameOutcome(client_id=client_id, seq=seq, answer=encode_answer(answer))
                for client_id, seq, answer in changes.answers
            ]
        )
    if changes.facts:
        record.facts.extend([FactMessage(kind=int(kind), key=key, value=value) for kind, key, value in changes.facts])
        record.fact_revisions.extend([revision - changes.base_revision for revision in changes.fact_revisions])
    return record.SerializeToString()


def decode_record(data: bytes) -> Changes:
    """The group that was encoded, with `size_bytes` set.

    Raises:
        DataLoss: these bytes are no record that this version understands.
    """
    try:
        record = Record.FromString(data)
        if record.format != RECORD_FORMAT:
            raise DataLoss("", f"log record {record.number} has format {record.format}, not {RECORD_FORMAT}")
        return _decode(record, len(data))
    except (DecodeError, *_NONSENSE) as error:
        raise DataLoss("", f"a log record cannot be decoded ({type(error).__name__}: {error})") from error


def _encode_rows(changes: Changes, record: Any) -> None:
    base = changes.base_revision
    revisions = changes.revisions
    if revisions != list(range(base + 1, changes.last_revision + 1)):
        record.revision_offsets.extend([revision - base for revision in revisions])
    _encode_values(changes.values, record)
    record.path.extend(_pack(changes.path, 0))
    record.types.extend(_pack(changes.types, 0))
    record.keys.extend(_pack(changes.keys, ""))
    record.versions.extend(_pack(changes.versions, 0))
    record.producers.extend(_pack(changes.producers, ""))
    record.producer_seqs.extend(_pack(changes.producer_seqs, 0))
    record.actors.extend(_pack(changes.actors, ""))
    record.causes.extend(_pack(changes.causes, ""))
    record.principals.extend(_pack(changes.principals, ""))
    if changes.extras:
        record.extras.extend([_encode_extra(row, extra) for row, extra in changes.extras.items()])
    if changes.sent:
        record.sent.extend([SentMessage(first_row=row, rows=rows, client_id=name) for row, rows, name in changes.sent])


def _encode_extra(row: int, extra: Extra) -> RowExtra:
    """Sets what is not the default: members join in thousands, and a field that is given costs half the message."""
    message = RowExtra(row=row, lease_id=extra.lease)
    if extra.declaration is not None:
        message.declaration = encode_declaration(extra.declaration)
    if extra.changed_fields:
        message.changed_fields.extend(extra.changed_fields)
    if extra.stream_items_max:
        message.stream_items_max = extra.stream_items_max
    if extra.depth:
        message.depth = extra.depth
    if extra.kind:
        message.entry_kind = extra.kind
    return message


def _pack(column: list[_Element], default: _Element) -> Sequence[_Element]:
    """The shortest form of a column. Looking at the last element first spares most counts."""
    first = column[0]
    if first != column[-1] or column.count(first) != len(column):
        return column
    return () if first == default else (first,)


def _encode_values(values: list[_Stored], record: Any) -> None:
    kinds = set(map(type, values))
    if len(kinds) == 1:
        kind = _STORED_KIND_OF[kinds.pop()]
        if kind:
            record.value_kinds.append(kind)
        _encode_column(kind, values, record)
        return
    record.value_kinds.extend([_STORED_KIND_OF[type(value)] for value in values])
    integers = [int(value) for value in values if type(value) is int or type(value) is bool]
    if integers:
        record.ints.extend(_pack(integers, 0))
    blobs = [value.text if type(value) is Json else value for value in values if type(value) in (bytes, Json)]
    if blobs:
        record.blobs.extend(_pack(blobs, b""))
    for kind, stored in ((_DOUBLE, float), (_STRING, str), (_POSITION, tuple)):
        if stored in kinds:
            _encode_column(kind, [value for value in values if type(value) is stored], record)


def _encode_column(kind: int, column: list[Any], record: Any) -> None:
    """A column of values that are all of one kind."""
    if kind == _DOUBLE:
        record.doubles.extend(_pack_doubles(column))
    elif kind == _INT:
        record.ints.extend(_pack(column, 0))
    elif kind == _BOOL:
        record.ints.extend(_pack(list(map(int, column)), 0))  # protobuf takes no bool for an int
    elif kind == _STRING:
        record.strings.extend(_pack(column, ""))
    elif kind == _BYTES:
        record.blobs.extend(_pack(column, b""))
    elif kind == _JSON:
        record.blobs.extend(_pack([document.text for document in column], b""))
    elif kind == _POSITION:
        record.coordinates.extend(chain.from_iterable(column))
        record.dimensions.extend(_pack(list(map(len, column)), 0))


def _pack_doubles(column: list[float]) -> Sequence[float]:
    first = column[0]
    if first != column[-1] or column.count(first) != len(column):
        return column
    if first == 0.0 and abs(sum(map(copysign, repeat(1.0), column))) != len(column):
        return column  # zeros of both signs: equal, but not the same
    return (first,)


def _decode(record: Any, size_bytes: int) -> Changes:
    base = record.base_revision
    if record.revision_offsets:
        revisions = [base + offset for offset in record.revision_offsets]
    else:
        revisions = list(range(base + 1, record.last_revision + 1))
    count = len(revisions)
    changes = Changes(
        number=record.number,
        base_revision=base,
        last_revision=record.last_revision,
        wall_ns=record.wall_time_ns,
        places=_decode_places(record),
        path=_unpack(record.path, 0, count),
        revisions=revisions,
        types=_unpack(record.types, 0, count),
        keys=_unpack(record.keys, "", count),
        values=_decode_values(record, count),
        versions=_unpack(record.versions, 0, count),
        producers=_unpack(record.producers, "", count),
        producer_seqs=_unpack(record.producer_seqs, 0, count),
        actors=_unpack(record.actors, "", count),
        causes=_unpack(record.causes, "", count),
        principals=_unpack(record.principals, "", count),
        size_bytes=size_bytes,
    )
    for extra in record.extras:
        changes.extras[extra.row] = Extra(
            declaration=decode_declaration(extra.declaration) if extra.declaration else None,
            changed_fields=tuple(extra.changed_fields),
            stream_items_max=extra.stream_items_max,
            lease=extra.lease_id,
            kind=extra.entry_kind,
            depth=extra.depth,
        )
    changes.sent = [SentRows(sent.first_row, sent.rows, sent.client_id) for sent in record.sent]
    changes.facts = [
        Fact(FactKind(fact.kind), fact.key, fact.value if fact.HasField("value") else None) for fact in record.facts
    ]
    changes.fact_revisions = [changes.base_revision + offset for offset in record.fact_revisions]
    changes.outcomes = [
        KeptOutcome(kept.producer, kept.producer_seq, decode_outcome(kept.outcome)) for kept in record.outcomes
    ]
    changes.answers = [KeptAnswer(kept.client_id, kept.seq, decode_answer(kept.answer)) for kept in record.frames]
    return changes


def _decode_places(record: Any) -> list[Place]:
    count = len(record.paths)
    labels = [json.loads(form) for form in _unpack(record.place_labels, b"{}", count)] if record.place_labels else None
    columns = record.environment_numbers, record.paths, labels or [{} for _ in range(count)]
    places = [Place(*parts) for parts in zip(*columns, strict=True)]
    for place, time_ns in zip(record.timed_places, record.place_times_ns, strict=True):
        places[place] = places[place]._replace(sim_time_ns=time_ns)
    return places


def _unpack(column: Sequence[_Element], default: _Element, count: int) -> list[_Element]:
    length = len(column)
    if length == count:
        return list(column)
    if length == 0:
        return [default] * count
    if length == 1:
        return [column[0]] * count
    raise ValueError(f"a column has {length} elements for {count} rows")


def _decode_values(record: Any, count: int) -> list[_Stored]:
    kinds = record.value_kinds
    if len(kinds) <= 1:
        return _decode_column(record, kinds[0] if kinds else 0, count)
    kinds = _unpack(kinds, 0, count)
    integers = iter(_unpack(record.ints, 0, kinds.count(_INT) + kinds.count(_BOOL)))
    doubles = iter(_unpack(record.doubles, 0.0, kinds.count(_DOUBLE)))
    strings = iter(_unpack(record.strings, "", kinds.count(_STRING)))
    blobs = iter(_unpack(record.blobs, b"", kinds.count(_BYTES) + kinds.count(_JSON)))
    positions = iter(_decode_positions(record, kinds.count(_POSITION)))
    sources: dict[int, Iterator[_Stored]] = {
        0: repeat(NOTHING),
        _NULL: repeat(None),
        _INT: integers,
        _BOOL: map(bool, integers),
        _DOUBLE: doubles,
        _STRING: strings,
        _BYTES: blobs,
        _JSON: map(Json, blobs),
        _POSITION: positions,
    }
    return [next(sources[kind]) for kind in kinds]


def _decode_positions(record: Any, count: int) -> list[Position]:
    """Positions of moves, cut at the number of their dimensions."""
    dimensions = _unpack(record.dimensions, 0, count)
    if sum(dimensions) != len(record.coordinates):
        raise ValueError(f"{len(record.coordinates)} coordinates for positions of {sum(dimensions)}")
    coordinates = iter(record.coordinates)
    if dimensions and dimensions.count(dimensions[0]) == count and dimensions[0]:
        return list(zip(*[coordinates] * dimensions[0], strict=True))
    return [tuple(islice(coordinates, length)) for length in dimensions]


def _decode_column(record: Any, kind: int, count: int) -> list[_Stored]:
    """Values that are all of one kind."""
    column: Iterable[_Stored]
    if kind == 0:
        column = repeat(NOTHING, count)
    elif kind == _NULL:
        column = repeat(None, count)
    elif kind == _INT:
        column = _unpack(record.ints, 0, count)
    elif kind == _BOOL:
        column = map(bool, _unpack(record.ints, 0, count))
    elif kind == _DOUBLE:
        column = _unpack(record.doubles, 0.0, count)
    elif kind == _STRING:
        column = _unpack(record.strings, "", count)
    elif kind == _BYTES:
        column = _unpack(record.blobs, b"", count)
    elif kind == _JSON:
        column = map(Json, _unpack(record.blobs, b"", count))
    elif kind == _POSITION:
        column = _decode_positions(record, count)
    else:
        raise ValueError(f"unknown kind of value {kind}")
    return list(column)
