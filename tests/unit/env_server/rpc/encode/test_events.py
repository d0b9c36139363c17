"""Changes to frames and rows: read back by the contract's own rules."""

import itertools
import time
from typing import Any

from env_api.v1 import environment_service_pb2, events_pb2, session_pb2

from env_server.model.changes import Changes, Extra
from env_server.model.declaration_documents import document_of
from env_server.model.environments import Declaration
from env_server.model.limits import Limits
from env_server.model.values import NOTHING, Json
from env_server.model.watching import Delivery
from env_server.rpc.encode.columns import encode_columns
from env_server.rpc.encode.events import encode_delivery, encode_mark, encode_rows
from tests.unit.env_server.rpc.fakes import make_changes

LIMITS = Limits()
Row = tuple[Any, ...]


def read_frame(frame: events_pb2.EventFrame) -> list[Row]:
    """Rows of a frame, as a client reads them from the contract's comments alone."""

    def column(values: Any, default: Any) -> list[Any]:
        if len(values) == frame.count:
            return list(values)
        assert len(values) in (0, 1)
        return [values[0] if values else default] * frame.count

    revisions = column(frame.revisions, None)
    if not frame.revisions:
        revisions = [frame.first_revision + row for row in range(frame.count)]
    ints, blobs = iter(frame.ints), iter(frame.blobs)
    doubles, strings = iter(frame.doubles), iter(frame.strings)
    sources = {1: ints, 2: ints, 3: ints, 4: doubles, 5: strings, 6: blobs, 7: blobs}
    make: dict[int, Any] = {1: lambda _: None, 2: bool, 7: Json}
    values = [
        NOTHING if kind == 0 else make.get(kind, lambda value: value)(next(sources[kind]))
        for kind in column(frame.value_kinds, 0)
    ]
    assert not any(list(source) for source in sources.values())
    fields = {changed.row: tuple(changed.fields) for changed in frame.changed_fields}
    return [
        (*row, fields.get(number, ()))
        for number, row in enumerate(
            zip(
                revisions,
                [frame.paths[index] for index in column(frame.path, 0)],
                column(frame.types, 0),
                column(frame.keys, ""),
                values,
                column(frame.versions, 0),
                column(frame.producers, ""),
                column(frame.producer_seqs, 0),
                column(frame.actors, ""),
                column(frame.causes, ""),
                column(frame.principals, ""),
                column(frame.wall_times_ns, 0),
                strict=True,
            )
        )
    ]


def rows_of(changes: Changes, rows: Any = None) -> list[Row]:
    """The rows as the model has them."""
    return [
        (
            changes.revisions[row],
            changes.places[changes.path[row]].path,
            changes.types[row],
            changes.keys[row],
            changes.values[row],
            changes.versions[row],
            changes.producers[row],
            changes.producer_seqs[row],
            changes.actors[row],
            changes.causes[row],
            changes.principals[row],
            changes.wall_ns,
            changes.extras[row].changed_fields if row in changes.extras else (),
        )
        for row in (range(len(changes)) if rows is None else rows)
    ]


def deliver(delivery: Delivery, limits: Limits = LIMITS) -> list[events_pb2.EventFrame]:
    frames = list(encode_delivery(delivery, 5, limits))
    assert all(len(frame.encoded) <= limits.message_bytes_max for frame in frames)
    decoded = [session_pb2.SessionResponse.FromString(frame.encoded).events for frame in frames]
    assert [frame.count for frame in decoded] == [frame.events for frame in frames]
    assert all(frame.watch_id == 5 for frame in decoded)
    return decoded


def make_varied(count: int) -> Changes:
    """Rows that differ in everything."""
    pool = [1.5, NOTHING, "text", True, None, -3, Json(b"[1]"), b"raw", False, 0]
    changes = make_changes(count, base=100, values=[pool[row % len(pool)] for row in range(count)])
    changes.types = [4 + row % 4 for row in range(count)]
    changes.versions = list(range(count))
    changes.actors = [f"a{row % 3}" for row in range(count)]
    changes.causes = [f"c{row}" for row in range(count)]
    changes.principals = ["me"] * count
    changes.extras = {row: Extra(changed_fields=(f"f{row}", "g")) for row in range(0, count, 4)}
    changes.extras[1] = Extra(stream_items_max=5)
    return changes


def test_varied_rows_come_back_as_they_were() -> None:
    changes = make_varied(40)
    (frame,) = deliver(Delivery(changes, None, 140))
    assert read_frame(frame) == rows_of(changes)
    assert frame.through_revision == 140


def test_selected_rows_come_back_with_only_their_paths() -> None:
    changes = make_varied(40)
    for rows in ([0, 2, 4, 30], [7], list(range(1, 40, 2))):
        (frame,) = deliver(Delivery(changes, rows, 140))
        assert read_frame(frame) == rows_of(changes, rows)
    assert list(frame.paths) == ["/b"]


def test_one_kind_of_value_needs_no_kinds() -> None:
    for value in (1.5, 7, "s", True, None, b"b", Json(b"{}"), NOTHING):
        changes = make_changes(3, values=[value] * 3)
        (frame,) = deliver(Delivery(changes, None, 3))
        assert read_frame(frame) == rows_of(changes)
        assert len(frame.value_kinds) == (value is not NOTHING)


def test_constant_columns_are_sent_once() -> None:
    frame = events_pb2.EventFrame.FromString(encode_columns(make_changes(100)))
    assert list(frame.types) == [4]
    assert list(frame.versions) == [1]
    assert list(frame.producer_seqs) == [9]
    assert not frame.revisions
    assert not frame.actors
    assert list(frame.wall_times_ns) == [77]


def test_rows_of_one_revision_share_it() -> None:
    changes = make_changes(5, base=10, step=0)
    (frame,) = deliver(Delivery(changes, None, 11))
    assert list(frame.revisions) == [11]
    assert read_frame(frame) == rows_of(changes)
    changes.revisions = [11, 11, 12, 14, 15]
    changes.views.clear()
    assert read_frame(deliver(Delivery(changes, None, 15))[0]) == rows_of(changes)


def test_all_watches_share_one_encoding() -> None:
    changes = make_changes(10)
    deliver(Delivery(changes, None, 10))
    kept = changes.views["event_frame"]
    changes.keys = ["other"] * 10  # would show, were it encoded again
    (frame,) = deliver(Delivery(changes, None, 12))
    assert changes.views["event_frame"] is kept
    assert list(frame.keys) == [f"k{row}" for row in range(10)]
    assert frame.through_revision == 12


def test_a_mark_has_no_rows() -> None:
    (frame,) = deliver(Delivery(None, None, 9, synced_revision=8))
    assert (frame.count, frame.through_revision, frame.synced_revision) == (0, 9, 8)
    mark = session_pb2.SessionResponse.FromString(encode_mark(5, 12)).events
    assert (mark.watch_id, mark.count, mark.through_revision) == (5, 0, 12)
    (empty,) = deliver(Delivery(make_changes(3), [], 3))
    assert (empty.count, empty.through_revision) == (0, 3)


def test_long_frames_are_split_between_revisions() -> None:
    limits = Limits(message_bytes_max=2000)
    changes = make_changes(100, values=["x" * 100] * 100)
    changes.revisions = [1 + row // 2 for row in range(100)]
    changes.last_revision = 50
    for rows in (None, list(range(100))):
        frames = deliver(Delivery(changes, rows, 50, synced_revision=50), limits)
        assert len(frames) > 5
        assert [row for frame in frames for row in read_frame(frame)] == rows_of(changes)
        for frame, following in itertools.pairwise(frames):
            last, first = read_frame(frame)[-1][0], read_frame(following)[0][0]
            assert last < first, "a revision was cut"
            assert frame.through_revision == last
        assert [frame.synced_revision for frame in frames] == [0] * (len(frames) - 1) + [50]
        assert frames[-1].through_revision == 50


def test_a_revision_too_long_for_a_message_is_complete_only_at_its_end() -> None:
    limits = Limits(message_bytes_max=2000)
    changes = make_changes(60, base=10, values=["x" * 100] * 60, step=0)
    frames = deliver(Delivery(changes, None, 11), limits)
    assert len(frames) > 2
    assert [frame.through_revision for frame in frames] == [10] * (len(frames) - 1) + [11]


def test_initial_rows_are_no_progress_before_the_last() -> None:
    limits = Limits(message_bytes_max=2000)
    changes = make_changes(60, values=["x" * 100] * 60)
    changes.types = [21] * 60
    changes.revisions = [60 - row for row in range(60)]
    frames = deliver(Delivery(changes, None, 0), limits)
    assert len(frames) > 2
    assert all(frame.through_revision == 0 for frame in frames)
    assert [row for frame in frames for row in read_frame(frame)] == rows_of(changes)


def test_conflation_is_flagged() -> None:
    (frame,) = deliver(Delivery(make_changes(2), [1], 2, conflated=True))
    assert frame.conflated


def read_monitor(delivery: Delivery, limits: Limits = LIMITS) -> list[environment_service_pb2.MonitorResponse]:
    header = environment_service_pb2.Header(world="w", history="h", revision=1)
    raws = list(encode_rows(delivery, "w", header, limits))
    assert all(len(raw) <= limits.message_bytes_max for raw in raws)
    return [environment_service_pb2.MonitorResponse.FromString(raw) for raw in raws]


def test_rows_for_monitor_say_the_same() -> None:
    changes = make_varied(40)
    changes.revisions = [101, 101, 101, *range(102, 139)]
    (response,) = read_monitor(Delivery(changes, None, 140))
    assert response.through_revision == 140
    assert response.header.world == "w"
    assert [event.id for event in response.events][:4] == ["w/101.0", "w/101.1", "w/101.2", "w/102.0"]
    for row, event in enumerate(response.events):
        assert (event.revision, event.key, event.version) == (changes.revisions[row], changes.keys[row], row)
        assert event.HasField("value") == (changes.values[row] is not NOTHING)
        assert event.path == changes.places[changes.path[row]].path
        assert (event.actor, event.cause, event.principal) == (f"a{row % 3}", f"c{row}", "me")
        assert (event.producer, event.producer_seq, event.wall_time_ns) == (f"p{row}", 9, 77)
        assert tuple(event.changed_fields) == (changes.extras[row].changed_fields if row in changes.extras else ())
    (some,) = read_monitor(Delivery(changes, [2, 5], 140))
    assert [event.index for event in some.events] == [2, 0]


def test_rows_that_declare_tell_what_is_declared() -> None:
    """From the declaration beside them, whichever rows are told; a gate's begin, which has one too, tells its own."""
    changes = make_varied(12)
    config = Json(b'{"n": 9007199254740993}')
    for row, type_ in ((1, 1), (4, 2), (6, 9), (9, 1)):
        changes.types[row] = type_
        changes.extras[row] = Extra(declaration=Declaration(config=config), changed_fields=("config",) * (type_ == 2))
        changes.values[row] = Json(b'{"generation":1}') if type_ == 9 else NOTHING
    told = {row: document_of(Declaration(config=config)) for row in (1, 4, 9)}
    for rows in (None, [1, 4, 6], [0, 4], [9], [6, 7]):
        expected = [
            (*row[:4], told.get(number, row[4]), *row[5:])
            for number, row in zip(rows or range(12), rows_of(changes, rows), strict=True)
        ]
        (frame,) = deliver(Delivery(changes, rows, 112))
        assert read_frame(frame) == expected
        (response,) = read_monitor(Delivery(changes, rows, 112))
        values = [event.value.json_value for event in response.events if event.type in (1, 2)]
        assert values == [told[number].text for number in rows or range(12) if number in told]
    assert changes.values[1] is NOTHING, "what is stored stays as it is"


def test_monitor_marks_and_splits() -> None:
    (mark,) = read_monitor(Delivery(None, None, 9, synced_revision=9))
    assert (mark.through_revision, mark.synced_revision, len(mark.events)) == (9, 9, 0)
    changes = make_changes(50, values=["x" * 100] * 50)
    parts = read_monitor(Delivery(changes, None, 50), Limits(message_bytes_max=2000))
    assert [event.revision for part in parts for event in part.events] == list(range(1, 51))
    assert [part.through_revision for part in parts] == [part.events[-1].revision for part in parts]


def test_initial_rows_for_monitor_have_no_event_id() -> None:
    changes = make_changes(2)
    changes.types = [21, 21]
    (response,) = read_monitor(Delivery(changes, None, 0))
    assert [event.id for event in response.events] == ["", ""]


def read_positions(frame: events_pb2.EventFrame) -> list[tuple[float, ...]]:
    """The position of each row, as a client reads it from the contract's comments alone."""
    rows = list(frame.position_rows)
    if frame.coordinates and not rows:
        rows = list(range(frame.count))
    dimensions = list(frame.dimensions) if len(frame.dimensions) == len(rows) else [*frame.dimensions] * len(rows)
    coordinates = iter(frame.coordinates)
    found: list[tuple[float, ...]] = [()] * frame.count
    for row, count in zip(rows, dimensions, strict=True):
        found[row] = tuple(itertools.islice(coordinates, count))
    assert not list(coordinates)
    return found


def make_moves(values: list[Any]) -> Changes:
    changes = make_changes(len(values), values=values)
    changes.types = [8 if type(value) is tuple else 4 for value in values]
    return changes


def test_moves_have_columns_of_their_own_and_no_value() -> None:
    for values in (
        [(1.0, 2.0), (3.0, 4.0)],
        [(1.0,), (2.0,), ()],
        [(), ()],
        [1.5, (1.0, -2.5), "text", (), (7.0,), Json(b"[1]"), (0.0, 0.0)],
        [(), (5.0, 6.0)],
    ):
        changes = make_moves(values)
        for rows in (None, range(1, len(values)), [0, len(values) - 1]):
            frame = events_pb2.EventFrame.FromString(encode_columns(changes, rows))
            picked = [values[row] for row in (range(len(values)) if rows is None else rows)]
            assert read_positions(frame) == [value if type(value) is tuple else () for value in picked]
            assert [row[4] for row in read_frame(frame)] == [NOTHING if type(one) is tuple else one for one in picked]


def test_positions_of_the_initial_state_stand_beside_values() -> None:
    changes = make_changes(4, values=[1, 2, 3, 4])
    changes.types = [21] * 4
    changes.positions = {1: (1.0, 2.0), 3: (3.0, 4.0)}
    frame = events_pb2.EventFrame.FromString(encode_columns(changes))
    assert read_positions(frame) == [(), (1.0, 2.0), (), (3.0, 4.0)]
    frame = events_pb2.EventFrame.FromString(encode_columns(changes, [1, 2, 3]))
    assert read_positions(frame) == [(1.0, 2.0), (), (3.0, 4.0)]
    assert [row[4] for row in read_frame(frame)] == [2, 3, 4]
    changes.positions = {row: (float(row),) for row in range(4)}
    frame = events_pb2.EventFrame.FromString(encode_columns(changes))
    assert not frame.position_rows and list(frame.dimensions) == [1]


def test_events_in_rows_carry_positions() -> None:
    changes = make_moves([(1.0, 2.0), 5, ()])
    (response,) = read_monitor(Delivery(changes, None, changes.last_revision))
    assert [tuple(event.position) for event in response.events] == [(1.0, 2.0), (), ()]
    assert [event.HasField("value") for event in response.events] == [False, True, False]


def test_a_hundred_thousand_moves_are_packed_by_columns() -> None:
    """An object a row would take a second."""
    changes = make_moves([(float(row), 1.0) for row in range(100_000)])
    begun = time.process_time()
    encoded = encode_columns(changes)
    assert time.process_time() - begun < 0.5
    assert len(encoded) < 100_000 * 40


def test_rows_tell_the_time_of_their_clock_and_a_world_without_clocks_pays_nothing() -> None:
    changes = make_changes(6)
    frame = events_pb2.EventFrame.FromString(encode_columns(changes))
    assert not frame.sim_times_ns and not frame.timed
    one, two = changes.places
    changes.path = [row % 2 for row in range(len(changes))]
    changes.places = [one, two._replace(sim_time_ns=-7)]
    frame = events_pb2.EventFrame.FromString(encode_columns(changes))
    assert list(frame.sim_times_ns) == [-7 * (row % 2) for row in range(len(changes))]
    assert list(frame.timed) == [row % 2 == 1 for row in range(len(changes))]
    frame = events_pb2.EventFrame.FromString(encode_columns(changes, [1]))
    assert (list(frame.sim_times_ns), list(frame.timed)) == ([-7], [True])
    changes.places = [one._replace(sim_time_ns=0), two._replace(sim_time_ns=0)]
    frame = events_pb2.EventFrame.FromString(encode_columns(changes))
    assert (list(frame.sim_times_ns), list(frame.timed)) == ([], [True])
