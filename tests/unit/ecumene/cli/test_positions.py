"""Positions and spaces on the command line."""

from __future__ import annotations

import pytest
from ecumene import Box, Disc, Geo, Graph, Grid, NodeSet, Plane, Proximity, Space
from ecumene.cli.failures import UsageError
from ecumene.cli.positions import (
    describe_area,
    describe_proximity,
    describe_space,
    parse_place,
    parse_position,
    show_place,
    show_position,
    space_document,
)


@pytest.mark.parametrize(
    ("text", "position"), [("3,4", (3, 4)), ("7", (7,)), ("(-1.5, 2)", (-1.5, 2)), ("13.4, 52.5", (13.4, 52.5))]
)
def test_positions_are_read_and_shown_as_the_same(text: str, position: tuple[float, ...]) -> None:
    assert parse_position(text) == position
    assert parse_position(show_position(position) or "") == position


@pytest.mark.parametrize("text", ["", "here", "1,2,3", "1;2", "nan,0", "inf"])
def test_what_is_no_position_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_position(text)


def test_a_word_may_be_the_name_of_a_node_and_what_has_a_comma_may_not() -> None:
    assert parse_place("town hall") == "town hall" and parse_place("3,4") == (3, 4)
    for text in ("3,x", "", " "):
        with pytest.raises(UsageError):
            parse_place(text)


def test_nowhere_is_nothing() -> None:
    assert show_position(()) is None
    assert show_position((3.0, 4.25)) == "3,4.25"


def test_nodes_are_shown_with_their_names() -> None:
    assert show_place((1.0,), Graph.between([("home", "work")])) == "1 (work)"
    assert show_place((1.0,), Graph(2)) == "1"
    assert show_place((), Graph.between([("home", "work")])) is None
    assert show_place((1.0, 2.0), None) == "1,2"


@pytest.mark.parametrize(
    ("space", "line"),
    [
        (Grid(10, 5, "von_neumann", torus=True, capacity=1), "grid of 10 x 5, von-neumann, torus, at most 1 in a cell"),
        (Plane(-1, 0, 1, 2.5), "plane from -1 to 1 and from 0 to 2.5"),
        (Geo(), "the earth (WGS84)"),
        (Graph(3, [(0, 1)], directed=True, capacity=2), "graph of 3 nodes and 1 edge, directed, at most 2 in a node"),
    ],
)
def test_a_space_is_told_in_one_line(space: Space, line: str) -> None:
    assert describe_space(space) == line


def test_a_space_has_the_name_of_its_shape_in_json() -> None:
    assert space_document(None) is None
    assert space_document(Geo()) == {"geo": {}}
    assert space_document(Graph(2, [(0, 1)], names=["a", "b"])) == {
        "graph": {"nodes": 2, "edges": ((0, 1, 1.0),), "directed": False, "names": ("a", "b"), "capacity": 0}
    }


def test_areas_and_distances_are_told_in_one_line() -> None:
    assert describe_area(Box((0, 1), (2, 3))) == "box from 0,1 to 2,3"
    assert describe_area(Disc((0, 1), 2.5)) == "within 2.5 of 0,1"
    assert describe_area(NodeSet([1, 2])) == "2 nodes"
    assert describe_proximity(Proximity("p", 2, "cat*")) == "within 2, cat* and *"
