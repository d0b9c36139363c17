"""Rows of a commit group as the columns of an EventFrame, each as short as the contract allows."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final

from env_api.v1 import events_pb2

from env_server.model.changes import Changes, EventType
from env_server.model.values import KIND_OF, Json, Kind

_INITIAL: Final = int(EventType.INITIAL)
_DOUBLES: Final[frozenset[type]] = frozenset({float})
_STRINGS: Final[frozenset[type]] = frozenset({str})
_BLOBS: Final[frozenset[type]] = frozenset({bytes, Json})
_KIND_OF: Final = {**KIND_OF, tuple: int(Kind.NOTHING)}
"""Positions stand in columns of their own."""
_INTS: Final[frozenset[type]] = frozenset({int, bool, type(None)})


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
    if any(place.sim_time_ns is not None for place in changes.places):
        _encode_times(message, changes, get(changes.path))
    values = get(changes.values)
    if changes.extras:
        special = _find_special(changes, rows)
        values = _tell_declarations(changes, values, special)
        _encode_changed_fields(message, changes, special)
    _encode_values(message, values)
    _encode_positions(message, changes, rows, values)
    return message.SerializeToString()


def _encode_times(message: events_pb2.EventFrame, changes: Changes, path: list[int]) -> None:
    times = [changes.places[place].sim_time_ns for place in path]
    message.sim_times_ns.extend(_collapse([time_ns or 0 for time_ns in times], 0) or ())
    message.timed.extend(_collapse([time_ns is not None for time_ns in times], False) or ())


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
        kind = _KIND_OF[types.pop()]
        if kind != Kind.NOTHING:
            message.value_kinds.append(kind)
            _fill(message, kind, values)
        return
    message.value_kinds.extend([_KIND_OF[type(value)] for value in values])
    for column in (_DOUBLES, _STRINGS, _BLOBS, _INTS):
        if column & types:
            kind = _KIND_OF[next(iter(column & types))]
            _fill(message, kind, [value for value in values if type(value) in column])


def _encode_positions(
    message: events_pb2.EventFrame, changes: Changes, rows: Sequence[int] | None, values: list[Any]
) -> None:
    """The positions of moves, which stand among the values, or of rows of an initial state."""
    if changes.positions:
        told = changes.positions
        picked = range(len(changes)) if rows is None else rows
        places = [position for position, row in enumerate(picked) if row in told]
        positions = [told[picked[place]] for place in places]
    elif tuple in map(type, values):
        places = [position for position, value in enumerate(values) if type(value) is tuple and value]
        positions = values if len(places) == len(values) else [values[place] for place in places]
    else:
        return
    if not positions:
        return
    if len(places) < len(values):
        message.position_rows.extend(places)
    message.coordinates.extend(chain.from_iterable(positions))
    message.dimensions.extend(_collapse(list(map(len, positions)), 0) or ())


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


def _find_special(changes: Changes, rows: Sequence[int] | None) -> list[tuple[int, int]]:
    """Position in the frame and row of those that have an extra, ascending."""
    extras = changes.extras
    if rows is None or isinstance(rows, range):
        start, stop = (0, len(changes)) if rows is None else (rows.start, rows.stop)
        return [(row - start, row) for row in sorted(extras) if start <= row < stop]
    return [(position, row) for position, row in enumerate(rows) if row in extras]


def _tell_declarations(changes: Changes, values: list[Any], special: list[tuple[int, int]]) -> list[Any]:
    """The values, with those of rows that are told another one than is stored."""
    told = [(position, row) for position, row in special if changes.extras[row].declaration is not None]
    if not told:
        return values
    values = list(values)
    for position, row in told:
        values[position] = changes.told_value(row)
    return values


def _encode_changed_fields(message: events_pb2.EventFrame, changes: Changes, special: list[tuple[int, int]]) -> None:
    for position, row in special:
        fields = changes.extras[row].changed_fields
        if fields:
            message.changed_fields.add(row=position, fields=fields)
