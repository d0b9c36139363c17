"""Spaces as messages and back, and positions in columns; what has no form is refused before it is sent."""

from __future__ import annotations

from array import array
from typing import Any

import ecumene
import numpy
import pytest
from ecumene import Box, Disc, Geo, Graph, Grid, NodeSet, Plane, Proximity, Region, Space
from ecumene.client.space_actions import (
    fill_proximity,
    fill_region,
    fill_space,
    flatten_positions,
    move,
    read_proximity,
    read_region,
    read_space,
)
from env_api.v1 import space_pb2, values_pb2


@pytest.mark.parametrize(
    "space",
    [
        Grid(10, 5),
        Grid(10, 4, "hex", torus=True, capacity=1),
        Plane(-1.5, 0, 1.5, 2, torus=True),
        Geo(),
        Graph(4),
        Graph(3, [(0, 1), (1, 2)], directed=True, names=["a", "b", "c"], capacity=7),
        Graph(3, [(0, 1), (1, 2, 2.5)]),
    ],
)
def test_a_declaration_comes_back_as_it_was(space: Space) -> None:
    regions = [Region("box", Box((0, 0), (1, 1))), Region("disc", Disc((0, 0), 2)), Region("set", NodeSet([0, 2]))]
    near = Proximity("near", 1.5, "a*", "b*")
    message = fill_space(space, regions, [near])
    assert message is not None
    sent = values_pb2.Environment.FromString(values_pb2.Environment(space=message).SerializeToString())
    assert read_space(sent) == space
    assert list(map(read_region, sent.space.regions)) == regions
    assert list(map(read_proximity, sent.space.proximities)) == [near]


def test_no_space_is_none_and_has_nothing_in_it() -> None:
    assert fill_space(None) is None
    assert read_space(values_pb2.Environment()) is None
    with pytest.raises(ecumene.InvalidFieldError, match="need a space"):
        fill_space(None, [Region("a", NodeSet([0]))])


@pytest.mark.parametrize(
    "space",
    [Grid(-1, 5), Grid(2**40, 5), Grid(1.5, 5), Grid(3, 3, "round"), Plane("a", 0, 1, 1), Graph(2, [(0, -1)]), "grid"],  # type: ignore[arg-type]
)
def test_what_is_no_space_is_refused(space: Any) -> None:
    with pytest.raises(ecumene.InvalidFieldError):
        fill_space(space)


def test_what_is_no_area_is_refused() -> None:
    with pytest.raises(ecumene.InvalidFieldError, match="'square'"):
        fill_region(Region("square", (0, 0)))  # type: ignore[arg-type]
    assert fill_region(Region("nobody", NodeSet(()))).WhichOneof("area") == "nodes"
    for region in (Region("r", Disc((1, 1), "far")), Region("r", NodeSet((-1,))), Region(5, NodeSet((1,)))):  # type: ignore[arg-type]
        with pytest.raises(ecumene.InvalidFieldError):
            fill_region(region)
    with pytest.raises(ecumene.InvalidFieldError):
        fill_proximity(Proximity("p", "far"))  # type: ignore[arg-type]


def test_moving_nowhere_is_leaving_the_space() -> None:
    assert list(move((3, 4)).move.position) == [3, 4]
    assert list(move(5).move.position) == [5]
    assert move(None).HasField("move")
    assert not move(None).move.position


@pytest.mark.parametrize(
    "positions",
    [
        [(1, 2), (3, 4)],
        [1.0, 2.0, 3.0, 4.0],
        array("d", [1, 2, 3, 4]),
        numpy.array([[1, 2], [3, 4]]),
        numpy.array([1.0, 2, 3, 4]),
        numpy.array([[1, 3], [2, 4]], dtype=numpy.float32).T,
        (position for position in [(1, 2), (3, 4)]),
        zip([1, 3], [2, 4], strict=True),
    ],
    ids=["tuples", "flat", "array", "rows of ints", "flat numpy", "transposed", "generator", "zip"],
)
def test_positions_of_many_come_in_any_form(positions: Any) -> None:
    flat, dimensions = flatten_positions(positions, 2)
    assert (flat, dimensions) == ([1, 2, 3, 4], 2)
    space_pb2.Box(low=flat)


def test_nodes_are_positions_of_one_number() -> None:
    assert flatten_positions([4, 5], 2) == ([4, 5], 1)
    assert flatten_positions([(4,), (5,)], 2) == ([4, 5], 1)
    assert flatten_positions([], 0) == ([], 1)


@pytest.mark.parametrize(
    "positions",
    [
        *([(1, 2)], [1, 2, 3], [], [(1, 2), (3,)], [(1, 2, 3), (4, 5, 6)], [1] * 6, [("a", "b"), (1, 2)]),
        *(5, numpy.float64(5), [1, "x", 2, 3], [1, 10**400, 2, 3], {"a": 1, "b": 2}, [None, (1, 2)], [(1, 2), None]),
    ],
    ids=str,
)
def test_other_than_one_position_a_key_is_refused(positions: Any) -> None:
    with pytest.raises(ecumene.InvalidPositionError):
        flatten_positions(positions, 2)
