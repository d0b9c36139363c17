"""The events of a session's watch, row by row, without the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import grpc
from env_api.v1 import events_pb2, session_pb2, values_pb2

from tests.raw_client import RawSession

READ_TIMEOUT_S = 30.0


class Row(NamedTuple):
    """One event. The value is (name of its field, content), None = it has none."""

    revision: int
    type: int
    path: str
    key: str
    value: Any
    version: int
    producer: str = ""
    producer_seq: int = 0
    actor: str = ""
    cause: str = ""


def rows_of(frame: events_pb2.EventFrame) -> Iterator[Row]:
    """The frame's columns as rows."""

    def of(column: Any, row: int, default: Any) -> Any:
        if len(column) == frame.count:
            return column[row]
        return column[0] if column else default

    fields = values_pb2.Value.DESCRIPTOR.fields_by_number
    ints, doubles, strings, blobs = map(iter, (frame.ints, frame.doubles, frame.strings, frame.blobs))
    columns = {1: ints, 2: ints, 3: ints, 4: doubles, 5: strings, 6: blobs, 7: blobs}
    for row in range(frame.count):
        kind = of(frame.value_kinds, row, 0)
        value = (fields[kind].name, next(columns[kind])) if kind else None
        if kind == values_pb2.Value.NULL_VALUE_FIELD_NUMBER:
            value = ("null_value", None)
        yield Row(
            of(frame.revisions, row, 0) or frame.first_revision + row,
            of(frame.types, row, 0),
            frame.paths[of(frame.path, row, 0)],
            of(frame.keys, row, ""),
            value,
            of(frame.versions, row, 0),
            of(frame.producers, row, ""),
            of(frame.producer_seqs, row, 0),
            of(frame.actors, row, ""),
            of(frame.causes, row, ""),
        )


async def read_log(channel: grpc.aio.Channel, name: str, through: int) -> list[Row]:
    """All events up to a revision, from the first one on; `name` is the session's client id."""
    session = await RawSession(channel, name).open()
    watch = session_pb2.WatchStart(watch_id=1, from_revision=1, credit_events=2**62, credit_bytes=2**62)
    await session.write(session_pb2.SessionRequest(watch=watch).SerializeToString())
    rows: list[Row] = []
    reached = 0
    while reached < through:
        async with asyncio.timeout(READ_TIMEOUT_S):
            response = await session.read()
        assert response.HasField("events"), response
        rows += rows_of(response.events)
        reached = max(reached, response.events.through_revision)
    session.cancel()
    revisions = [row.revision for row in rows]
    assert revisions == sorted(revisions), "a watch is ordered"
    return [row for row in rows if row.revision <= through]
