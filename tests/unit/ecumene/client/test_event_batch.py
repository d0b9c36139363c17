"""Columns read the same whether they were sent whole, as one element for all rows, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene import EventBatch, EventType
from env_api.v1 import events_pb2


def make(**columns: Any) -> EventBatch:
    return EventBatch(events_pb2.EventFrame(**columns), "main")


def test_constant_and_missing_columns_are_spread_over_all_rows() -> None:
    batch = make(count=3, first_revision=7, paths=["/a"], keys=["k"], types=[4], producers=["x", "y", "z"])
    assert batch.revisions == [7, 8, 9]
    assert batch.paths == ["/a"] * 3
    assert batch.keys == ["k"] * 3
    assert batch.types == [4] * 3
    assert batch.producers == ["x", "y", "z"]
    assert batch.versions == [0] * 3
    assert batch.values == [None] * 3


def test_paths_are_looked_up_in_the_table() -> None:
    assert make(count=3, paths=["/a", "/b"], path=[1, 0, 1]).paths == ["/b", "/a", "/b"]
    assert make(count=2, paths=["/a", "/b"], path=[1]).paths == ["/b", "/b"]
    assert make(count=2, paths=["/a", "/b"]).paths == ["/a", "/a"]


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ({"value_kinds": [4], "doubles": [1.5, 2.5, 3.5]}, [1.5, 2.5, 3.5]),
        ({"value_kinds": [4], "doubles": [1.5]}, [1.5] * 3),
        ({"value_kinds": [3]}, [0, 0, 0]),
        ({"value_kinds": [2, 1, 3], "ints": [1, 1, -5]}, [True, None, -5]),
        ({"value_kinds": [7, 0, 6], "blobs": [b'{"a":[1]}', b"raw"]}, [{"a": [1]}, None, b"raw"]),
        ({"value_kinds": [5, 4, 3], "strings": ["s"], "doubles": [0.5], "ints": [9]}, ["s", 0.5, 9]),
        ({"value_kinds": [3, 5, 3], "strings": ["s"], "ints": [9]}, [9, "s", 9]),
    ],
)
def test_values_are_taken_from_the_columns_of_their_kinds(columns: dict[str, Any], values: list[Any]) -> None:
    read = make(count=3, **columns).values
    assert read == values
    assert [type(value) for value in read] == [type(value) for value in values]


def test_an_event_is_a_row() -> None:
    batch = make(
        count=2,
        first_revision=5,
        revisions=[5, 5],
        paths=["/a"],
        keys=["x", "y"],
        types=[4, 11],
        value_kinds=[3],
        ints=[1, 2],
        versions=[3, 4],
        actors=["ann"],
        causes=["c"],
        principals=["p"],
        producer_seqs=[8],
        producers=["w"],
        wall_times_ns=[11],
        sim_times_ns=[12],
        timed=[True],
        changed_fields=[events_pb2.ChangedFields(row=1, fields=["f"])],
        through_revision=5,
    )
    event = batch[-1]
    assert (event.revision, event.type, event.path, event.key) == (5, EventType.AGGREGATE_CHANGED, "/a", "y")
    assert (event.value, event.version, event.actor, event.cause, event.principal) == (2, 4, "ann", "c", "p")
    assert (event.producer, event.producer_seq, event.wall_time_ns, event.sim_time_ns) == ("w", 8, 11, 12)
    assert (event.changed_fields, batch[0].changed_fields) == (("f",), ())
    assert [row.key for row in batch] == ["x", "y"]
    assert "AGGREGATE_CHANGED" in repr(event)
    with pytest.raises(IndexError):
        batch[2]


def test_the_time_is_that_of_the_nearest_clock_also_when_it_is_0_and_none_without_a_clock() -> None:
    assert make(count=2).sim_times_ns == [None, None]
    assert make(count=2, timed=[True]).sim_times_ns == [0, 0]
    assert make(count=3, timed=[False, True, True], sim_times_ns=[0, 0, 7]).sim_times_ns == [None, 0, 7]
    assert make(count=2, timed=[True], sim_times_ns=[7])[1].sim_time_ns == 7


@pytest.mark.parametrize(
    ("columns", "positions"),
    [
        ({}, [(), (), ()]),
        ({"coordinates": [1, 2, 3, 4, 5, 6], "dimensions": [2]}, [(1, 2), (3, 4), (5, 6)]),
        ({"position_rows": [1], "coordinates": [7], "dimensions": [1]}, [(), (7,), ()]),
        ({"position_rows": [0, 2], "coordinates": [7, 1, 2], "dimensions": [1, 2]}, [(7,), (), (1, 2)]),
    ],
    ids=["nobody is anywhere", "all", "one", "of two spaces"],
)
def test_positions_belong_to_their_rows(columns: dict[str, Any], positions: list[tuple[float, ...]]) -> None:
    batch = make(count=3, types=[8], **columns)
    assert [event.position for event in batch] == positions
    assert batch.positions == {row: position for row, position in enumerate(positions) if position}
