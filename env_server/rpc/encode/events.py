"""Changes to event frames (columns) and to events (rows).

What all watches of a group's whole rows have in common is encoded once and kept in `changes.views`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from env_api.v1 import environment_service_pb2, events_pb2

from env_server.model.changes import Changes, EventType
from env_server.model.limits import Limits
from env_server.model.values import Nothing
from env_server.model.watching import Delivery
from env_server.rpc.encode.columns import encode_columns
from env_server.rpc.encode.values import encode_value
from env_server.rpc.encode.wire import EVENTS, wrap

_INITIAL: Final = int(EventType.INITIAL)
_VIEW: Final = "event_frame"


class Piece(NamedTuple):
    """Encoded rows, the revision through which they are complete (0 = of no use as a mark), and their number."""

    encoded: bytes
    through_revision: int
    events: int


class EncodedFrame(NamedTuple):
    """A message with an EventFrame, and what it costs of a watch's credit."""

    encoded: bytes
    events: int


def encode_delivery(delivery: Delivery, watch_id: int, limits: Limits, field: int = EVENTS) -> Iterator[EncodedFrame]:
    """One step of a watch as frames, usually one; split between revisions where that is possible.

    They are messages whose `field` is an EventFrame: SessionResponses, unless it says otherwise.

    Only the last carries the step's own mark, so that a reader that loses the rest resumes before what it lost.
    """
    pieces = _get_pieces(delivery, limits)
    last = len(pieces) - 1
    for index, piece in enumerate(pieces):
        head = events_pb2.EventFrame(watch_id=watch_id, conflated=delivery.conflated)
        if index == last:
            head.through_revision = delivery.through_revision
            head.synced_revision = delivery.synced_revision
        else:
            head.through_revision = piece.through_revision
        yield EncodedFrame(wrap(field, head.SerializeToString() + piece.encoded), piece.events)


def encode_mark(watch_id: int, through_revision: int) -> bytes:
    """A SessionResponse with an event frame that is only a progress mark."""
    payload = events_pb2.EventFrame(watch_id=watch_id, through_revision=through_revision).SerializeToString()
    return wrap(EVENTS, payload)


def encode_rows(
    delivery: Delivery, world: str, header: environment_service_pb2.Header, limits: Limits
) -> Iterator[bytes]:
    """One step of a watch as MonitorResponses with events as rows; split as frames are."""
    changes = delivery.changes
    pieces = [Piece(b"", delivery.through_revision, 0)]
    if changes is not None:
        rows = range(len(changes)) if delivery.rows is None else delivery.rows
        room = limits.message_bytes_max - header.ByteSize() - 64
        pieces = _split(changes, rows, room, lambda part: _encode_row_events(changes, part, world)) or pieces
    last = len(pieces) - 1
    for index, piece in enumerate(pieces):
        head = environment_service_pb2.MonitorResponse(header=header)
        if index == last:
            head.through_revision = delivery.through_revision
            head.synced_revision = delivery.synced_revision
        else:
            head.through_revision = piece.through_revision
        yield head.SerializeToString() + piece.encoded


def _get_pieces(delivery: Delivery, limits: Limits) -> list[Piece]:
    changes = delivery.changes
    if changes is None or not len(changes) or delivery.rows == []:
        return [Piece(b"", delivery.through_revision, 0)]
    room = limits.message_bytes_max - 128
    if delivery.rows is not None:
        return _split(changes, delivery.rows, room, lambda part: encode_columns(changes, part))
    kept = changes.views.get(_VIEW)
    if kept is None:
        whole = encode_columns(changes)
        if len(whole) <= room:
            kept = [Piece(whole, changes.last_revision, len(changes))]
        else:
            kept = _split(changes, range(len(changes)), room, lambda part: encode_columns(changes, part))
        changes.views[_VIEW] = kept
    return kept  # type: ignore[return-value]


def _split(changes: Changes, rows: Sequence[int], room: int, encode: Callable[[Sequence[int]], bytes]) -> list[Piece]:
    """The rows in pieces of at most `room` bytes: between revisions, within one only if it is too large itself."""
    pieces: list[Piece] = []
    waiting = [rows] if len(rows) else []
    while waiting:
        part = waiting.pop()
        encoded = encode(part)
        if len(encoded) > room and len(part) > 1:
            middle = _find_boundary(changes, part)
            waiting += [part[middle:], part[:middle]]
            continue
        pieces.append(Piece(encoded, _find_mark(changes, part, waiting), len(part)))
    return pieces


def _find_boundary(changes: Changes, part: Sequence[int]) -> int:
    """Where to cut: the first row of a revision near the middle, else the middle itself."""
    middle = len(part) // 2
    revisions = changes.revisions
    for cut in range(middle, 0, -1):
        if revisions[part[cut]] != revisions[part[cut - 1]]:
            return cut
    for cut in range(middle + 1, len(part)):
        if revisions[part[cut]] != revisions[part[cut - 1]]:
            return cut
    return middle


def _find_mark(changes: Changes, part: Sequence[int], waiting: list[Sequence[int]]) -> int:
    """The revision through which a watch is complete once it has seen `part`."""
    if changes.types[part[-1]] == _INITIAL:
        return 0  # entries in key order: nothing is complete before all of them are there
    revision = changes.revisions[part[-1]]
    if waiting and changes.revisions[waiting[-1][0]] == revision:
        return revision - 1
    return revision


def _encode_row_events(changes: Changes, rows: Sequence[int], world: str) -> bytes:
    message = environment_service_pb2.MonitorResponse()
    for row in rows:
        message.events.append(_encode_row(changes, row, world))
    return message.SerializeToString()


def _encode_row(changes: Changes, row: int, world: str) -> events_pb2.Event:
    revision = changes.revisions[row]
    initial = changes.types[row] == _INITIAL
    index = 0 if initial else row - bisect_left(changes.revisions, revision)
    value = changes.told_value(row)
    extra = changes.extras.get(row)
    place = changes.places[changes.path[row]]
    return events_pb2.Event(
        id="" if initial else f"{world}/{revision}.{index}",
        revision=revision,
        index=index,
        type=changes.types[row],  # type: ignore[arg-type]
        path=place.path,
        key=changes.keys[row],
        value=None if isinstance(value, Nothing) else encode_value(value),
        version=changes.versions[row],
        changed_fields=extra.changed_fields if extra is not None else None,
        producer=changes.producers[row],
        producer_seq=changes.producer_seqs[row],
        actor=changes.actors[row],
        cause=changes.causes[row],
        principal=changes.principals[row],
        sim_time_ns=place.sim_time_ns,
        wall_time_ns=changes.wall_ns,
        position=changes.told_position(row),
    )
