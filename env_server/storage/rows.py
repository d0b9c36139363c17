"""Rows of the state tables: state as bytes, and back.

Every row begins with a checksum over its table, its key and its body, so that a flipped byte, and a row in another
table than its own, is found and never read as state.
Bodies are fixed numbers first, then what varies. Hot: a chunk of 65,536 entries is encoded between two commits.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from env_server.model.changes import Fact, FactKind
from env_server.model.entries import Entry, StreamEnds, StreamItem
from env_server.model.ports import EnvironmentRow, ProducerMark, SessionMark, StateChunk
from env_server.model.values import KIND_OF, NOTHING, Json, Kind, Nothing, Value
from env_server.storage import layout
from env_server.storage.declarations import decode_declaration, encode_declaration
from env_server.storage.errors import DataLoss
from env_server.storage.outcomes import answer_form, answer_of, decode_outcome, encode_outcome

Pair = tuple[bytes, bytes]
_Name = TypeVar("_Name")
_Row = TypeVar("_Row")

SLICE_ROWS: Final = 8192

_ENTRY: Final = struct.Struct("<BBQQQ")
"""Kind of entry, kind of value, version, created, modified; then what the kind has a flag for, and the value."""
_ENTRY_DOUBLE: Final = struct.Struct("<BBQQQd")
_ENTRY_PLACED_DOUBLE: Final = struct.Struct("<BBQQQQB2dd")
"""As `_ENTRY`, then `_PLACE`, two coordinates and the value."""
_ITEM: Final = struct.Struct("<BQ")
"""Kind of value, revision; the value follows."""
_ENVIRONMENT: Final = struct.Struct("<QQQH")
"""Version, created, modified, bytes of the path; path and declaration follow."""
_MARK: Final = struct.Struct("<BQ")
"""Form of the outcome, seq; the outcome follows."""
_PLAIN: Final = struct.Struct("<QQ")
"""Revision and version of a plain write."""
_PLAIN_MARK: Final = struct.Struct("<BQQQ")
"""Both in one."""
_INT: Final = struct.Struct("<q")
_DOUBLE: Final = struct.Struct("<d")
_ENDS: Final = struct.Struct("<QQQ")

_LEASED: Final = 0x80
"""Flag in the kind of an entry that lives under a lease."""
_LEASE: Final = struct.Struct("<Q")
_PLACED: Final = 0x40
"""Flag in the kind of an entry that is somewhere, or was: behind its lease, if it has one, follows where."""
_PLACE: Final = struct.Struct("<QB")
"""Revision of the last change but moves, 0 = modified; numbers in its position, which follow: 0 = it is nowhere."""
_COORDINATES: Final = tuple(struct.Struct(f"<{count}d") for count in range(3))
_ENDS_KIND: Final = 255
"""Kind of value of a stream: its ends. Far from the numbers of the contract."""
_AS_JSON: Final = 0
_AS_PLAIN: Final = 1

# Plain ints: reading a member of an IntEnum costs more than the comparison.
_NULL_KIND: Final = int(Kind.NULL)
_BOOL_KIND: Final = int(Kind.BOOL)
_INT_KIND: Final = int(Kind.INT)
_DOUBLE_KIND: Final = int(Kind.DOUBLE)
_STRING_KIND: Final = int(Kind.STRING)
_BYTES_KIND: Final = int(Kind.BYTES)
_JSON_KIND: Final = int(Kind.JSON)
_encode_json = json.JSONEncoder(separators=(",", ":")).encode
_first = itemgetter(0)
_crc = zlib.crc32
_SEEDS: Final = {table: _crc(table.encode()) for table in layout.TABLES}
"""What the checksums of each table begin with."""


class TableWrites(NamedTuple):
    """Rows of one table, in key order; an absent row stands among `deletes`."""

    table: str
    puts: list[Pair]
    deletes: list[bytes]


def encode_chunk(chunk: StateChunk) -> Iterator[TableWrites]:
    """All rows of a chunk, in slices; what it drops by range and `applied_through` are the writer's business.

    Sorting saves as much in LMDB as it costs. It is done by slice because one call of list.sort keeps the world's
    thread waiting: 40 ms for 65,536 rows, 2 ms for a slice.
    """
    for entries in _slice(chunk.entries):
        yield _sorted(layout.ENTRIES, _encode_entries(entries))
    for items in _slice(chunk.items):
        yield _sorted(layout.ITEMS, [(layout.item_key(*name), item and _item_body(item)) for name, item in items])
    for producers in _slice(chunk.producers):
        yield _sorted(layout.PRODUCERS, [(name.encode(), mark and _mark_body(mark)) for name, mark in producers])
    for environments in _slice(chunk.environments):
        bodies = [(layout.number_key(number), row and _environment_body(row)) for number, row in environments]
        yield _sorted(layout.ENVIRONMENTS, bodies)
    for facts in _slice(chunk.facts):
        yield _sorted(layout.FACTS, [(layout.fact_key(*name), value) for name, value in facts])
    for sessions in _slice(chunk.sessions):
        yield _sorted(layout.SESSIONS, [(name.encode(), mark and _session_body(mark)) for name, mark in sessions])


def decode_environments(pairs: Iterable[Pair]) -> Iterator[EnvironmentRow]:
    """Environments from their table.

    Raises:
        DataLoss: a row is damaged; so do the other decoders here.
    """
    for key, row in pairs:
        body = _open_row(layout.ENVIRONMENTS, key, row)
        version, created, modified, path_bytes = _ENVIRONMENT.unpack_from(body)
        end = _ENVIRONMENT.size + path_bytes
        yield EnvironmentRow(
            layout.NUMBER.unpack(key)[0],
            body[_ENVIRONMENT.size : end].decode(),
            decode_declaration(body[end:]),
            version,
            created,
            modified,
        )


def decode_entries(pairs: Iterable[Pair]) -> Iterator[tuple[int, str, Entry]]:
    """Entries from their table: environment, key, entry."""
    number_of, seed = layout.NUMBER.unpack_from, _SEEDS[layout.ENTRIES]
    for key, row in pairs:
        body = row[4:]
        if _crc(key + body, seed).to_bytes(4, "little") != row[:4]:
            raise _damaged(layout.ENTRIES, key)
        kind, value_kind, version, created, modified = _ENTRY.unpack_from(body)
        lease, position, written = 0, None, 0
        if kind & _LEASED:
            lease = _LEASE.unpack_from(body, _ENTRY.size)[0]
            kind, body = kind ^ _LEASED, body[_LEASE.size :]
        if kind & _PLACED:
            written, dimensions = _PLACE.unpack_from(body, _ENTRY.size)
            form, body = _COORDINATES[dimensions], body[_PLACE.size :]
            position = form.unpack_from(body, _ENTRY.size) or None
            kind, body = kind ^ _PLACED, body[form.size :]
        if value_kind == _DOUBLE_KIND:
            value: Any = _DOUBLE.unpack_from(body, _ENTRY.size)[0]
        elif value_kind == _ENDS_KIND:
            value = StreamEnds(*_ENDS.unpack_from(body, _ENTRY.size))
        else:
            value = _unpack_value(value_kind, body[_ENTRY.size :])
        entry = Entry(value, version, created, modified, kind, lease, position, written)
        yield number_of(key)[0], key[8:].decode(), entry


def decode_items(pairs: Iterable[Pair]) -> Iterator[tuple[int, str, StreamItem]]:
    """Items of streams from their table: environment, key, item."""
    for key, row in pairs:
        body = _open_row(layout.ITEMS, key, row)
        value_kind, revision = _ITEM.unpack_from(body)
        number, name, sequence = layout.split_item_key(key)
        yield number, name, StreamItem(sequence, _unpack_value(value_kind, body[_ITEM.size :]), revision)


def decode_producers(pairs: Iterable[Pair]) -> Iterator[tuple[str, ProducerMark]]:
    """Producers' marks from their table."""
    for key, row in pairs:
        body = _open_row(layout.PRODUCERS, key, row)
        form, seq = _MARK.unpack_from(body)
        if form == _AS_PLAIN:
            revision, version = _PLAIN.unpack_from(body, _MARK.size)
            yield key.decode(), (seq, revision, version)
        else:
            yield key.decode(), (seq, decode_outcome(body[_MARK.size :]), 0)


def decode_facts(pairs: Iterable[Pair]) -> Iterator[Fact]:
    """Facts from their table."""
    for key, row in pairs:
        body = _open_row(layout.FACTS, key, row)
        kind, name = layout.split_fact_key(key)
        yield Fact(FactKind(kind), name, body)


def decode_sessions(pairs: Iterable[Pair]) -> Iterator[SessionMark]:
    """Sessions' marks from their table."""
    for key, row in pairs:
        form = json.loads(_open_row(layout.SESSIONS, key, row))
        answers = tuple(answer_of(answer) for answer in form["answers"])
        places = form.get("used", 0), form.get("floor", 0)
        yield SessionMark(key.decode(), form["last_seq"], answers, form["acknowledged"], *places)


def _slice(rows: dict[_Name, _Row]) -> Iterator[list[tuple[_Name, _Row]]]:
    remaining = iter(rows.items())
    while part := list(islice(remaining, SLICE_ROWS)):
        yield part


def _encode_entries(entries: list[tuple[tuple[int, str], Entry | None]]) -> list[tuple[bytes, bytes | None]]:
    """Keys and bodies, unrolled: this is where the rows are many."""
    rows: list[tuple[bytes, bytes | None]] = []
    pack, pack_double, pack_placed = _ENTRY.pack, _ENTRY_DOUBLE.pack, _ENTRY_PLACED_DOUBLE.pack
    prefix_of = layout.NUMBER.pack
    for (number, name), entry in entries:
        key = prefix_of(number) + name.encode()
        if entry is None:
            rows.append((key, None))
            continue
        value, version, created, modified, kind, lease, position, written = entry
        if position and len(position) == 2 and type(value) is float and not lease:  # in one, as most of a crowd are
            body = pack_placed(
                kind | _PLACED, _DOUBLE_KIND, version, created, modified, written, 2, position[0], position[1], value
            )
        elif lease or position or written:
            flags = (_LEASED if lease else 0) | (_PLACED if position or written else 0)
            body = pack(kind | flags, _kind_of_state(value), version, created, modified)
            if lease:
                body += _LEASE.pack(lease)
            if position or written:
                at = position or ()
                body += _PLACE.pack(written, len(at)) + _COORDINATES[len(at)].pack(*at)
            body += _pack_state(value)
        elif type(value) is float:
            body = pack_double(kind, _DOUBLE_KIND, version, created, modified, value)
        elif type(value) is StreamEnds:
            body = pack(kind, _ENDS_KIND, version, created, modified) + _ENDS.pack(*value)
        else:
            body = pack(kind, KIND_OF[type(value)], version, created, modified) + _pack_value(value)  # type: ignore[arg-type]
        rows.append((key, body))
    return rows


def _kind_of_state(value: Any) -> int:
    return _ENDS_KIND if type(value) is StreamEnds else KIND_OF[type(value)]


def _pack_state(value: Any) -> bytes:
    return _ENDS.pack(*value) if type(value) is StreamEnds else _pack_value(value)


def _sorted(table: str, bodies: list[tuple[bytes, bytes | None]]) -> TableWrites:
    """Parts rows from deletions and puts the checksums before the bodies."""
    bodies.sort(key=_first)
    seed = _SEEDS[table]
    puts = [(key, _crc(key + body, seed).to_bytes(4, "little") + body) for key, body in bodies if body is not None]
    return TableWrites(table, puts, [key for key, body in bodies if body is None])


def _open_row(table: str, key: bytes, row: bytes) -> bytes:
    body = row[4:]
    if _crc(key + body, _SEEDS[table]).to_bytes(4, "little") != row[:4]:
        raise _damaged(table, key)
    return body


def seal_again(table: str, key: bytes, row: bytes) -> bytes:
    """A row of formats 1 and 2, whose checksums did not cover the table, in the present form.

    Raises:
        DataLoss: it is damaged.
    """
    body = row[4:]
    if _crc(key + body).to_bytes(4, "little") != row[:4]:
        raise _damaged(table, key)
    return _crc(key + body, _SEEDS[table]).to_bytes(4, "little") + body


def _damaged(table: str, key: bytes) -> DataLoss:
    return DataLoss("", f"the checksum of row {key!r} in table {table} does not match")


def _environment_body(row: EnvironmentRow) -> bytes:
    path = row.path.encode()
    numbers = _ENVIRONMENT.pack(row.version, row.created, row.modified, len(path))
    return numbers + path + encode_declaration(row.declaration)


def _item_body(item: StreamItem) -> bytes:
    return _ITEM.pack(KIND_OF[type(item.value)], item.revision) + _pack_value(item.value)


def _mark_body(mark: ProducerMark) -> bytes:
    seq, outcome, version = mark
    if type(outcome) is int:
        return _PLAIN_MARK.pack(_AS_PLAIN, seq, outcome, version)
    return _MARK.pack(_AS_JSON, seq) + encode_outcome(outcome)  # type: ignore[arg-type]


def _session_body(mark: SessionMark) -> bytes:
    answers = [answer_form(answer) for answer in mark.answers]
    form = {"last_seq": mark.last_seq, "acknowledged": mark.acknowledged, "answers": answers, "used": mark.used}
    if mark.floor:
        form["floor"] = mark.floor
    return _encode_json(form).encode()


def _pack_value(value: Value | Nothing) -> bytes:
    kind = type(value)
    if kind is float:
        return _DOUBLE.pack(value)
    if kind is int:
        return _INT.pack(value)
    if kind is str:
        return value.encode()  # type: ignore[union-attr]
    if kind is Json:
        return value.text  # type: ignore[union-attr]
    if kind is bytes:
        return value  # type: ignore[return-value]
    if kind is bool:
        return b"\1" if value else b"\0"
    return b""


def _unpack_value(kind: int, payload: bytes) -> Any:
    if kind == _NULL_KIND:
        return None
    if kind == _DOUBLE_KIND:
        return _DOUBLE.unpack(payload)[0]
    if kind == _INT_KIND:
        return _INT.unpack(payload)[0]
    if kind == _STRING_KIND:
        return payload.decode()
    if kind == _JSON_KIND:
        return Json(payload)
    if kind == _BYTES_KIND:
        return payload
    if kind == _BOOL_KIND:
        return payload == b"\1"
    return NOTHING
