"""Spaces are declared as values: equal when they mean the same, refused when they mean nothing."""

from __future__ import annotations

import ecumene
import networkx
import pytest
from ecumene import Box, Disc, Geo, Graph, Grid, NodeSet, Plane
from ecumene.client.spaces import as_position


def test_a_walk_over_the_edge_of_a_torus_comes_in_at_the_other_side() -> None:
    assert Grid(10, 5, torus=True).wrap((-1, 5)) == (9, 0)
    assert Grid(10, 5, torus=True).wrap((-0.5, 4.5)) == (9, 4)
    assert Grid(10, 5).wrap((-1, 5)) == (-1, 5)
    plane = Plane(-1.0, 0.0, 1.0, 2.0, torus=True)
    assert plane.wrap((1.5, -0.5)) == (-0.5, 1.5)
    assert plane.wrap((1.0, 2.0)) == (-1.0, 0.0)
    assert Plane(-1.0, 0.0, 1.0, 2.0).wrap((1.5, -0.5)) == (1.5, -0.5)


@pytest.mark.parametrize(
    ("walked", "place"),
    [
        ((10.0, 20.0), (10.0, 20.0)),
        ((190.0, 0.0), (-170.0, 0.0)),
        ((-190.0, -5.0), (170.0, -5.0)),
        ((180.0, 90.0), (-180.0, 90.0)),
        ((10.0, 95.0), (-170.0, 85.0)),
        ((-100.0, -95.0), (80.0, -85.0)),
        ((0.0, 360.0), (0.0, 0.0)),
    ],
)
def test_a_walk_over_a_pole_goes_down_on_the_other_side(
    walked: tuple[float, float], place: tuple[float, float]
) -> None:
    assert Geo().wrap(walked) == place


@pytest.mark.parametrize("x", [-1e-18, -5e-324, 1 - 2**-53, 1e300, -1e300])
def test_a_wrapped_point_never_stands_on_the_upper_bound(x: float) -> None:
    wrapped, _ = Plane(0.0, 0.0, 1.0, 1.0, torus=True).wrap((x, 0.0))
    assert 0.0 <= wrapped < 1.0


def test_a_graph_is_the_same_however_its_edges_are_written() -> None:
    assert Graph(3, [(0, 1), (1, 2, 2.5)]) == Graph(3, ((0, 1, 1.0), (1, 2, 2.5)))
    assert hash(Graph(2, [(0, 1)])) == hash(Graph(2, [(0, 1, 1)]))


def test_a_graph_between_names_numbers_them_as_they_come() -> None:
    graph = Graph.between([("home", "shop"), ("shop", "work", 3)], names=["work"], directed=True)
    assert graph.names == ("work", "home", "shop")
    assert graph.edges == ((1, 2, 1.0), (2, 0, 3.0))
    assert (graph.number("shop"), graph.name(2)) == (2, "shop")
    with pytest.raises(ecumene.InvalidPositionError, match="pub"):
        graph.number("pub")
    for number in (-1, 3, 0.5):
        with pytest.raises(ecumene.InvalidPositionError):
            graph.name(number)
    assert Graph(2).name(1) == "1"


def test_names_are_unique_and_one_a_node() -> None:
    for names in (["a", "a"], ["a"]):
        with pytest.raises(ecumene.InvalidFieldError, match="names"):
            Graph(2, names=names)


def test_a_graph_of_networkx_keeps_its_numbers_or_gets_names() -> None:
    ring = Graph.of(networkx.cycle_graph(4), capacity=2)
    assert (ring.nodes, ring.names, ring.directed, ring.capacity) == (4, (), False, 2)
    assert {edge[:2] for edge in ring.edges} == {(0, 1), (1, 2), (2, 3), (0, 3)}
    roads = networkx.DiGraph()
    roads.add_edge("rome", "pisa", km=355)
    roads.add_edge("pisa", "rome")
    graph = Graph.of(roads, weight="km")
    assert (graph.names, graph.directed) == (("rome", "pisa"), True)
    assert graph.edges == ((0, 1, 355.0), (1, 0, 1.0))
    backwards = networkx.Graph()
    backwards.add_edge(1, 0)
    assert Graph.of(backwards).edges == ((1, 0, 1.0),)


def test_nodes_that_are_shown_alike_are_refused() -> None:
    alike = networkx.Graph()
    alike.add_edge(1, "1")
    with pytest.raises(ecumene.InvalidFieldError, match="names"):
        Graph.of(alike)


def test_areas_are_the_same_however_they_are_written() -> None:
    assert Box([0, 1], (2, 3)) == Box((0.0, 1.0), [2.0, 3.0])
    assert Disc([0, 1], 5) == Disc((0.0, 1.0), 5.0)
    assert NodeSet([1, 2]) == NodeSet((1, 2))


def test_a_position_is_one_or_two_numbers() -> None:
    assert as_position((3, 4.5)) == (3.0, 4.5)
    assert as_position(7) == (7.0,)
    for wrong in ("shop", (1, 2, 3), (), ("a", "b"), None, (10**400, 0), {"x": 1}):
        with pytest.raises(ecumene.InvalidPositionError):
            as_position(wrong)
