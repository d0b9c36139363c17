"""Answers of a space are columns, and views of them."""

from __future__ import annotations

import pytest
from ecumene.client.surroundings import Near, Neighbours, read_nearby
from env_api.v1 import queries_pb2


def test_who_is_in_a_box_has_no_distance() -> None:
    near = read_nearby(queries_pb2.NearbyPage(keys=["a", "b"], coordinates=[1, 2, 3, 4], more=True))
    assert list(near) == [Near("a", None, (1.0, 2.0)), Near("b", None, (3.0, 4.0))]
    assert (len(near), near[1].key, near.more) == (2, "b", True)
    assert near[:1] == [near[0]] and near[5:] == [] and near[::-1] == list(near)[::-1]


def test_nobody_is_near() -> None:
    near = read_nearby(queries_pb2.NearbyPage(revision=3))
    assert (list(near), bool(near), near.revision) == ([], False, 3)


def test_neighbours_are_rows_of_those_asked_for_and_of_others() -> None:
    table = queries_pb2.NeighbourTable(
        keys=["a", "b", "c"],
        counts=[2, 0, 1],
        neighbours=[1, 3, 0],
        others=["x"],
        coordinates=[0, 0, 1, 1, 2, 2, 3, 3],
        revision=9,
    )
    found = Neighbours(table)
    assert [found.of(key) for key in found] == [["b", "x"], [], ["a"]]
    assert found.positions == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert (found.counts, found.rows, found.others, found.revision) == ([2, 0, 1], [1, 3, 0], ["x"], 9)
    with pytest.raises(KeyError):
        found.of("x")
    assert repr(found) == "<Neighbours of 3 entries at 9>"


def test_a_world_of_nobody_has_no_neighbours() -> None:
    found = Neighbours(queries_pb2.NeighbourTable())
    assert (len(found), list(found), found.positions) == (0, [], [])
