"""Changes to event frames (columns) and to events (rows).

What all watches of a group's whole rows have in common is encoded once and kept in `changes.views`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from env_api.v1 import environment_service_pb2, events_pb2

from env_server.model.changes import Changes, EventType
from env_server.model.limits import Limits
from env_server.model.values import KIND_OF, Json, Kind, Nothing
from env_server.model.watching import Delivery
from env_server.rpc.encode.values import encode_value
from env_server.rpc.encode.wire import EVENTS, wrap

_INITIAL: Final = int(EventType.INITIAL)
_VIEW: Final = "event_frame"
_DOUBLES: Final[frozenset[type]] = frozenset({float})
_STRINGS: Final[frozenset[type]] = frozenset({str})
_BLOBS: Final[frozenset[type]] = frozenset({bytes, Json})
_INTS: Final[frozenset[type]] = frozenset({int, bool, type(None)})


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


def encode_columns(changes: Changes, rows: Sequence[int] | None = None) -> bytes:
    """The rows (None = all) as the columns of an EventFrame, without what a watch adds."""
    get = _take(rows)
    revisions = get(changes.revisions)
    count = len(revisions)
    places, path = _reindex(changes, get(changes.path))
    message = events_pb2.EventFrame(
        count=count,
        first_revision=revisions[0],
        revisions=_collapse_revisions(revisions),
        indexes=_collapse(_index_rows(changes, rows), 0),
        paths=places,
        path=_collapse(path, 0),
        types=_collapse(get(changes.types), 0),
        keys=_collapse(get(changes.keys), ""),
        versions=_collapse(get(changes.versions), 0),
        producers=_collapse(get(changes.producers), ""),
        producer_seqs=_collapse(get(changes.producer_seqs), 0),
        actors=_collapse(get(changes.actors), ""),
        causes=_collapse(get(changes.causes), ""),
        principals=_collapse(get(changes.principals), ""),
        wall_times_ns=[changes.wall_ns] if changes.wall_ns else None,
    )
    _encode_values(message, get(changes.values))
    if changes.extras:
        _encode_changed_fields(message, changes, rows)
    return message.SerializeToString()


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


def _take(rows: Sequence[int] | None) -> Callable[[list[Any]], list[Any]]:
    if rows is None:
        return lambda column: column
    if isinstance(rows, range):
        return lambda column: column[rows.start : rows.stop]
    if len(rows) == 1:
        return lambda column: [column[rows[0]]]
    pick = itemgetter(*rows)  # one pass in C for each of many columns
    return lambda column: list(pick(column))


def _reindex(changes: Changes, path: list[int]) -> tuple[list[str], list[int]]:
    """The paths that occur, and the index of each row into them."""
    places = changes.places
    used = sorted(set(path))
    if len(used) == len(places):
        return [place.path for place in places], path
    position = {place: index for index, place in enumerate(used)}
    return [places[place].path for place in used], [position[place] for place in path]


def _collapse(column: list[Any], default: object) -> list[Any] | None:
    """A column as the contract wants it: None when all are the default, one element when all are equal."""
    first = column[0]
    if column[-1] != first or column.count(first) != len(column):
        return column
    return None if first == default else [first]


def _collapse_revisions(revisions: list[int]) -> list[int] | None:
    first, count = revisions[0], len(revisions)
    if revisions[-1] - first == count - 1 and revisions == list(range(first, first + count)):
        return None
    return _collapse(revisions, None)


def _index_rows(changes: Changes, rows: Sequence[int] | None) -> list[int]:
    """Each row's place within its revision; initial rows, which are no changes, have 0."""
    revisions = changes.revisions
    if changes.types[0] == _INITIAL or revisions[-1] - revisions[0] == len(revisions) - 1:
        return [0]  # one row a revision, as in most groups
    picked = range(len(revisions)) if rows is None else rows
    return [row - bisect_left(revisions, revisions[row]) for row in picked]


def _encode_values(message: events_pb2.EventFrame, values: list[Any]) -> None:
    types = set(map(type, values))
    if len(types) == 1:  # the usual frame: reports of one kind
        kind = KIND_OF[types.pop()]
        if kind != Kind.NOTHING:
            message.value_kinds.append(kind)
            _fill(message, kind, values)
        return
    kinds = [KIND_OF[type(value)] for value in values]
    message.value_kinds.extend(kinds)
    for column in (_DOUBLES, _STRINGS, _BLOBS, _INTS):
        if column & types:
            kind = KIND_OF[next(iter(column & types))]
            _fill(message, kind, [value for value in values if type(value) in column])


def _fill(message: events_pb2.EventFrame, kind: int, values: list[Any]) -> None:
    """Appends values to the column that `kind` shares with others."""
    if kind == Kind.DOUBLE:
        message.doubles.extend(values)
    elif kind == Kind.STRING:
        message.strings.extend(values)
    elif kind in (Kind.BYTES, Kind.JSON):
        message.blobs.extend([value.text if type(value) is Json else value for value in values])
    else:
        message.ints.extend([value if type(value) is int else 1 if value else 0 for value in values])


def _encode_changed_fields(message: events_pb2.EventFrame, changes: Changes, rows: Sequence[int] | None) -> None:
    extras = changes.extras
    if rows is None or isinstance(rows, range):
        start, stop = (0, len(changes)) if rows is None else (rows.start, rows.stop)
        named = [(row - start, row) for row in sorted(extras) if start <= row < stop]
    else:
        named = [(position, row) for position, row in enumerate(rows) if row in extras]
    for position, row in named:
        if extras[row].changed_fields:
            message.changed_fields.add(row=position, fields=extras[row].changed_fields)


def _encode_row_events(changes: Changes, rows: Sequence[int], world: str) -> bytes:
    message = environment_service_pb2.MonitorResponse()
    for row in rows:
        message.events.append(_encode_row(changes, row, world))
    return message.SerializeToString()


def _encode_row(changes: Changes, row: int, world: str) -> events_pb2.Event:
    revision = changes.revisions[row]
    initial = changes.types[row] == _INITIAL
    index = 0 if initial else row - bisect_left(changes.revisions, revision)
    value = changes.values[row]
    extra = changes.extras.get(row)
    return events_pb2.Event(
        id="" if initial else f"{world}/{revision}.{index}",
        revision=revision,
        index=index,
        type=changes.types[row],  # type: ignore[arg-type]
        path=changes.places[changes.path[row]].path,
        key=changes.keys[row],
        value=None if isinstance(value, Nothing) else encode_value(value),
        version=changes.versions[row],
        changed_fields=extra.changed_fields if extra is not None else None,
        producer=changes.producers[row],
        producer_seq=changes.producer_seqs[row],
        actor=changes.actors[row],
        cause=changes.causes[row],
        principal=changes.principals[row],
        wall_time_ns=changes.wall_ns,
    )
