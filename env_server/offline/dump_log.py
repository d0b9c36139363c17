"""`ecumene offline dump-log`: the log as lines of JSON, one an event, for people and for jq."""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from env_server.model.changes import Changes, EventType, FactKind
from env_server.model.errors import RevisionCompacted
from env_server.model.values import NOTHING, Json, Nothing, Value
from env_server.offline.directories import is_snapshot_directory
from env_server.storage import layout
from env_server.storage.declarations import encode_declaration
from env_server.storage.errors import DataLoss
from env_server.storage.lmdb_tables import told_where
from env_server.storage.log_reading import read_record
from env_server.storage.outcomes import encode_answer, encode_outcome
from env_server.storage.read_only import reading

Line = dict[str, Any]


def dump_log(directory: Path, from_revision: int, to_revision: int, everything: bool) -> Iterator[Line | DataLoss]:
    """Events of the revisions asked for (0 = the first, the last there is), in order; a damaged record as an error.

    `everything` adds what is no event: kept outcomes and answers, facts.

    Raises:
        StorageError: the directory cannot be read.
        RevisionCompacted: the log no longer reaches back to `from_revision`.
    """
    with (
        reading(directory, owned=not is_snapshot_directory(directory)) as (tables, _),
        told_where(directory),
        tables.env.begin() as transaction,
    ):
        cursor = transaction.cursor(tables[layout.LOG])
        if from_revision and cursor.first():
            first = layout.LOG_HEADER.unpack_from(cursor.value())[2] + 1
            if from_revision < first:
                raise RevisionCompacted(from_revision, first)
        if not cursor.set_range(layout.log_key(max(1, from_revision), 0)):
            return
        for key, value in cursor.iternext():
            try:
                changes = read_record(key, value)
            except DataLoss as damage:
                yield damage.at(str(directory))
                continue
            if to_revision and changes.base_revision >= to_revision:
                return
            yield from _lines(changes, from_revision, to_revision or changes.last_revision, everything)


def _lines(changes: Changes, from_revision: int, to_revision: int, everything: bool) -> Iterator[Line]:
    when = datetime.fromtimestamp(changes.wall_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    index, before = 0, 0
    for row, revision in enumerate(changes.revisions):
        index = index + 1 if revision == before else 0
        before = revision
        if from_revision <= revision <= to_revision:
            yield {"revision": revision, "index": index, "record": changes.number, "time": when, **_row(changes, row)}
    if everything:
        about = {"record": changes.number, "time": when}
        for producer, seq, outcome in changes.outcomes:
            yield {**about, "producer": producer, "seq": seq, "outcome": encode_outcome(outcome).decode()}
        for client_id, seq, answer in changes.answers:
            yield {**about, "client": client_id, "seq": seq, "answer": encode_answer(answer).decode()}
        for kind, key, value in changes.facts:
            told = None if value is None else value.decode(errors="backslashreplace")
            yield {**about, "fact": FactKind(kind).name.lower(), "key": key, "value": told}


def _row(changes: Changes, row: int) -> Line:
    type_ = changes.types[row]
    known = type_ in EventType.__members__.values()
    line: Line = {
        "type": EventType(type_).name.lower() if known else type_,
        "path": changes.places[changes.path[row]].path,
    }
    time_ns = changes.places[changes.path[row]].sim_time_ns
    if time_ns is not None:
        line["sim_time_ns"] = time_ns
    if changes.keys[row]:
        line["key"] = changes.keys[row]
    value = changes.told_value(row)
    if value is not NOTHING:
        line["value"] = _plain(value)
    if position := changes.told_position(row):
        line["position"] = position
    line["version"] = changes.versions[row]
    for name, column in (("actor", changes.actors), ("cause", changes.causes), ("principal", changes.principals)):
        if column[row]:
            line[name] = column[row]
    if changes.producers[row]:
        line["producer"], line["seq"] = changes.producers[row], changes.producer_seqs[row]
    for sent in changes.sent:
        if 0 <= row - sent.first_row < sent.rows:
            line["sender"] = sent.client_id
    extra = changes.extras.get(row)
    if extra is not None and extra.declaration is not None:
        line["declaration"] = encode_declaration(extra.declaration).decode()
    return line


def _plain(value: Value | Nothing) -> Any:
    """Strings, numbers and documents as they are; bytes in an object, in base64."""
    if isinstance(value, Json):
        return value.document
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return value
