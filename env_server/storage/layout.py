"""What is on disk, in one file: the tables, how their keys are made, the metadata, the format's version.

A world is one LMDB environment in a directory of its own; `OWNER_FILE` beside it is locked while it is open.

    table         key                                          value
    meta          name                                         see META_* below
    log           last revision u64, record number u64         LOG_HEADER, then the record (records.py)
    environments  number u64                                   row (rows.py)
    entries       environment u64, key                         row
    items         environment u64, key, 00, sequence u64       row
    producers     producer                                     row
    sessions      client id                                    row
    dropped       environment u64                              empty: what it held is still being removed
    facts         kind u8, key                                 row

All numbers in keys are big-endian, so that key order is number order. The log is dense and only ever grows at its
end; a record that holds nothing but outcomes has the same last revision as the one before it.

To add a table: name it here and in TABLES, give it a key function, an encoder in rows.py and a loader in both logs.
To change what is stored: raise FORMAT_VERSION, migrate in `ecumene offline upgrade`, keep a database of the old
version in the tests. LMDB keys end at 511 bytes; the longest here has 8 + 128 + 1 + 8.
"""

import struct
import zlib
from typing import Final, NamedTuple

from env_server.model.changes import FactKind
from env_server.storage.errors import DataLoss

FORMAT_VERSION: Final = 4

DATA_FILE: Final = "data.mdb"
LOCK_FILE: Final = "lock.mdb"
"""LMDB's table of readers; made again when it is missing."""
OWNER_FILE: Final = "owner"

META: Final = "meta"
LOG: Final = "log"
ENVIRONMENTS: Final = "environments"
ENTRIES: Final = "entries"
ITEMS: Final = "items"
PRODUCERS: Final = "producers"
SESSIONS: Final = "sessions"
DROPPED: Final = "dropped"
FACTS: Final = "facts"
TABLES: Final = (META, LOG, ENVIRONMENTS, ENTRIES, ITEMS, PRODUCERS, SESSIONS, DROPPED, FACTS)

META_FORMAT: Final = b"format_version"
"""Decimal digits, so that any later version can read it."""
META_HISTORY: Final = b"history"
META_HEAD: Final = b"head"
"""HEAD: revision, record number, next environment number."""
META_APPLIED: Final = b"applied_through"
"""NUMBER: all changes up to this record are in the state tables."""
META_ORIGIN: Final = b"restored_from"
"""JSON of ports.Origin; of a world that began as a copy."""
META_AHEAD: Final = b"answers_ahead"
"""Empty; there while a server has the world open that answers before it commits. Found at open, it tells that the last
one died so: what it had answered may be gone, and what follows is another history."""

HEAD: Final = struct.Struct(">QQQ")
NUMBER: Final = struct.Struct(">Q")
LOG_KEY: Final = struct.Struct(">QQ")
LOG_HEADER: Final = struct.Struct("<IqQ")
"""Checksum of all that follows, wall time in ns, base revision: trimming reads these and not the record."""
_CHECKED: Final = struct.Struct("<qQ")
_CHECKSUM_BYTES: Final = 4


class LogHeader(NamedTuple):
    """What a log value says about itself; `checksum` covers the rest of it."""

    checksum: int
    wall_ns: int
    base_revision: int


def log_key(last_revision: int, number: int) -> bytes:
    """Key of a record. The first key >= log_key(r, 0) belongs to the record that holds revision r."""
    return LOG_KEY.pack(last_revision, number)


def seal_record(wall_ns: int, base_revision: int, record: bytes) -> bytes:
    """Log value of an encoded record."""
    checked = _CHECKED.pack(wall_ns, base_revision)
    checksum = zlib.crc32(record, zlib.crc32(checked))
    return checksum.to_bytes(_CHECKSUM_BYTES, "little") + checked + record


def open_record(key: bytes, value: bytes) -> tuple[LogHeader, bytes]:
    """Header and encoded record of a log value.

    Raises:
        DataLoss: the value is not what was written.
    """
    if (
        len(value) < LOG_HEADER.size
        or zlib.crc32(memoryview(value)[_CHECKSUM_BYTES:]) != LOG_HEADER.unpack_from(value)[0]
    ):
        number = LOG_KEY.unpack(key)[1] if len(key) == LOG_KEY.size else repr(key)
        raise DataLoss("", f"the checksum of log record {number} does not match")
    return LogHeader(*LOG_HEADER.unpack_from(value)), value[LOG_HEADER.size :]


def number_key(number: int) -> bytes:
    """Key of an environment, and first part of the keys of all that is in it."""
    return NUMBER.pack(number)


def entry_key(environment: int, key: str) -> bytes:
    """Key of an entry."""
    return NUMBER.pack(environment) + key.encode()


def split_entry_key(key: bytes) -> tuple[int, str]:
    """Environment and key of an entry."""
    return NUMBER.unpack_from(key)[0], key[8:].decode()


def fact_key(kind: int, key: str) -> bytes:
    """Key of a fact."""
    return bytes((kind,)) + key.encode()


def split_fact_key(key: bytes) -> tuple[int, str]:
    """Kind and key of a fact."""
    return key[0], key[1:].decode()


def parts_of(environment: int) -> tuple[tuple[str, bytes], ...]:
    """Where that lies which goes with an environment, beside its own row: tables, and how the keys begin there."""
    prefix = NUMBER.pack(environment)
    return (ENTRIES, prefix), (ITEMS, prefix), (FACTS, fact_key(FactKind.TIMER, f"{environment}/"))


def owner_of(table: str, key: bytes) -> int | None:
    """The environment with which a row goes, as in `parts_of`; None = with none."""
    if table in (ENTRIES, ITEMS):
        return int(NUMBER.unpack_from(key)[0]) if len(key) >= NUMBER.size else None
    if table != FACTS or key[:1] != bytes((FactKind.TIMER,)):
        return None
    number = key[1:].partition(b"/")[0]
    return int(number) if number.isdigit() else None


def item_key(environment: int, key: str, sequence: int) -> bytes:
    """Key of a stream's item. Keys of entries hold no control characters, so 00 ends them."""
    return NUMBER.pack(environment) + key.encode() + b"\0" + NUMBER.pack(sequence)


def split_item_key(key: bytes) -> tuple[int, str, int]:
    """Environment, key and sequence number of a stream's item."""
    return NUMBER.unpack_from(key)[0], key[8:-9].decode(), NUMBER.unpack_from(key, len(key) - 8)[0]
