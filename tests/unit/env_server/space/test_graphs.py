"""Entries on graphs, against a library's shortest paths."""

import math
import random

import networkx
import pytest

from env_server.model.errors import InvalidRequest, LimitExceeded, Reason
from env_server.model.limits import Limits
from env_server.model.spaces import Box, Disc, Graph, NodeSet, Position
from env_server.space.spaces import open_space
from tests.contracts.space_index import Stand, check_space_index, holds


def draw_graph(seed: int) -> Graph:
    """Some nodes, self-loops, parallel edges, free ones, parts that no way leads to."""
    rng = random.Random(seed)
    nodes = rng.choice([1, 2, 5, 30])
    weights = rng.choice([[1.0], [0.0, 1.0], [0.1, 0.2, 0.3], [1e-300, 1.0, 1e300], [rng.random() for _ in range(50)]])
    edges = tuple(
        (rng.randrange(nodes), rng.randrange(nodes), rng.choice(weights))
        for _ in range(rng.choice([0, nodes, 3 * nodes]))
    )
    return Graph(nodes, edges, directed=rng.random() < 0.5)


def stand_of(graph: Graph) -> Stand:
    net = networkx.MultiDiGraph() if graph.directed else networkx.MultiGraph()
    net.add_nodes_from(range(graph.nodes))
    scale = max((weight.as_integer_ratio()[1] for _, _, weight in graph.edges), default=1)
    for one, other, weight in graph.edges:
        numerator, denominator = weight.as_integer_ratio()
        net.add_edge(one, other, weight=numerator * scale // denominator)

    def draw(rng: random.Random) -> Position:
        return (rng.randrange(graph.nodes),)

    def measure(one: Position, other: Position) -> float:
        lengths = networkx.single_source_dijkstra_path_length(net, int(one[0]))
        return lengths[int(other[0])] / scale if int(other[0]) in lengths else math.inf

    return Stand(open_space, graph, draw, measure, directed=graph.directed)


@pytest.mark.parametrize("number", range(24))
def test_every_query_tells_what_a_look_at_all_tells(number: int, seed: int) -> None:
    check_space_index(stand_of(draw_graph(seed + number)), seed, entries=25)


def test_hops_count_edges_and_not_their_weights() -> None:
    index = open_space(Graph(4, ((0, 1, 10.0), (1, 2, 10.0), (0, 3, 1.0), (3, 2, 1.0), (2, 2, 0.0))), Limits())
    for key, node in (("a", 0.0), ("b", 1.0), ("c", 2.0), ("d", 3.0)):
        index.put(key, (node,))
    assert index.distance((0.0,), (1.0,)) == 10.0
    assert index.distance((0.0,), (1.0,), hops=True) == 1.0
    assert index.within((0.0,), 1.0, hops=True) == [(0.0, "a"), (1.0, "b"), (1.0, "d")]
    assert index.nearest((0.0,), 3) == [(0.0, "a"), (1.0, "d"), (2.0, "c")]
    assert index.nearest((0.0,), 3, hops=True) == [(0.0, "a"), (1.0, "b"), (1.0, "d")]
    assert index.adjacent((1.0,)) == [(0.0, "b"), (1.0, "a"), (1.0, "c")]
    assert index.way((0.0,), (2.0,)) == (0, 3, 2)
    assert index.way((0.0,), (2.0,), hops=True) == (0, 1, 2)


def test_a_directed_edge_leads_one_way() -> None:
    index = open_space(Graph(3, ((0, 1, 1.0), (1, 2, 1.0)), directed=True), Limits())
    index.put("end", (2.0,))
    index.put("start", (0.0,))
    assert index.nearest((0.0,), 5) == [(0.0, "start"), (2.0, "end")]
    assert index.nearest((2.0,), 5) == [(0.0, "end")]
    assert index.distance((2.0,), (0.0,)) == math.inf
    assert index.way((2.0,), (0.0,)) == ()
    assert index.within((2.0,), math.inf) == [(0.0, "end")]


def test_areas_are_nodes_and_discs() -> None:
    index = open_space(Graph(4, ((0, 1, 1.5), (1, 2, 1.5))), Limits())
    some = NodeSet(frozenset({1, 3}))
    index.accept_areas([some])
    assert [holds(index, some, (float(node),)) for node in range(4)] == [False, True, False, True]
    disc = Disc((0.0,), 1.5)
    index.accept_areas([disc])
    assert [holds(index, disc, (float(node),)) for node in range(4)] == [True, True, False, False]
    for area in (NodeSet(frozenset({4})), NodeSet(frozenset({-1})), Box((0.0,), (1.0,)), Disc((4.0,), 1.0)):
        with pytest.raises(InvalidRequest):
            index.accept_areas([area])
    with pytest.raises(InvalidRequest):
        index.in_box(Box((0.0,), (1.0,)))


@pytest.mark.parametrize(
    "graph",
    [
        Graph(0),
        Graph(2, ((0, 2, 1.0),)),
        Graph(2, ((-1, 0, 1.0),)),
        Graph(2, ((0, 1, -1.0),)),
        Graph(2, ((0, 1, math.nan),)),
        Graph(2, ((0, 1, math.inf),)),
        Graph(2, ((0, 1, 1.7e308), (0, 1, 1.7e308))),
        Graph(2, names=("a",)),
        Graph(2, names=("a", "a")),
        Graph(2, capacity=-1),
    ],
    ids=str,
)
def test_what_is_no_graph_is_refused(graph: Graph) -> None:
    with pytest.raises(InvalidRequest) as caught:
        open_space(graph, Limits())
    assert caught.value.reason == Reason.INVALID_FIELD


def test_graphs_beyond_the_limits_are_refused() -> None:
    for graph, limit in ((Graph(5), "space_nodes_max"), (Graph(2, ((0, 1, 1.0),) * 5), "space_edges_max")):
        with pytest.raises(LimitExceeded) as caught:
            open_space(graph, Limits(space_nodes_max=4, space_edges_max=4))
        assert caught.value.metadata["limit"] == limit


def test_a_long_search_is_refused_as_soon_as_it_has_looked_at_enough() -> None:
    index = open_space(Graph(1000, tuple((node, node + 1, 1.0) for node in range(999))), Limits(space_looks_max=200))
    index.put("far", (999.0,))
    for ask in (
        lambda: index.nearest((0.0,), 1),
        lambda: index.way((0.0,), (999.0,)),
        lambda: index.distance((0.0,), (999.0,)),
        lambda: index.accept_areas([Disc((0.0,), 500.0)]),
    ):
        with pytest.raises(LimitExceeded):
            ask()
        assert index.looked <= 203
    disc = Disc((0.0,), 60.0)
    index.accept_areas([disc])
    assert [holds(index, disc, (node,)) for node in (0.0, 60.0, 61.0)] == [True, True, False]


def test_discs_together_are_no_more_than_one_question_may_look_at() -> None:
    index = open_space(Graph(1000, tuple((node, node + 1, 1.0) for node in range(999))), Limits(space_looks_max=2_000))
    discs = [Disc((float(node),), 100.0) for node in range(500, 510)]
    index.accept_areas(discs[:3])
    for disc in discs[:3]:
        index.accept_areas([disc])
    with pytest.raises(LimitExceeded) as caught:
        index.accept_areas(discs)
    assert caught.value.metadata["limit"] == "space_looks_max"
    assert holds(index, discs[0], (600.0,)) and not holds(index, discs[0], (601.0,))


def test_one_apart_has_the_same_graph_and_nobody_in_it() -> None:
    index = open_space(Graph(3, ((0, 1, 1.0), (1, 2, 1.0)), capacity=1), Limits())
    index.put("a", (1.0,))
    apart = index.apart()
    apart.put("b", (2.0,))
    assert apart.within((0.0,), 5.0) == [(2.0, "b")] and index.within((0.0,), 5.0) == [(1.0, "a")]
    assert (len(index), len(apart), apart.is_full((1.0,)), index.is_full((1.0,))) == (1, 1, False, True)


def test_what_a_disc_covers_is_found_once_and_counted() -> None:
    index = open_space(Graph(20, tuple((node, node + 1, 1.0) for node in range(19))), Limits())
    disc, other = Disc((5.0,), 3.0), Disc((9.0,), 2.0)
    areas = index.accept_areas([disc, disc])
    walked = areas.looked
    assert walked > 7 and not areas.is_ready
    assert areas.at((2.0,)) == [0, 1] and not areas.at((1.0,))
    looked = areas.looked
    assert looked == walked + 2 * 7 and areas.is_ready
    assert areas.at((8.0,)) == [0, 1] and areas.looked == looked
    more = index.accept_areas([disc, other], areas)
    assert 0 < more.looked < walked, "only the new one was walked"
    assert more.at((8.0,)) == [0, 1]
    assert index.accept_areas([disc], more).looked == 0


def test_what_was_accepted_once_is_found_again_whatever_the_limit_is_by_then() -> None:
    graph = Graph(1000, tuple((node, node + 1, 1.0) for node in range(999)))
    again = open_space(graph, Limits(space_looks_max=10)).areas([Disc((500.0,), 300.0)])
    assert again.looked == 0
    assert again.at((200.0,)) == [0] and not again.at((199.0,))
    assert again.looked > 600


def test_areas_that_are_none_are_refused_before_any_is_walked() -> None:
    index = open_space(Graph(1000, tuple((node, node + 1, 1.0) for node in range(999))), Limits(space_looks_max=100))
    with pytest.raises(InvalidRequest):
        index.accept_areas([Disc((500.0,), 300.0), Disc((1000.0,), 1.0)])


def test_a_node_holds_as_many_as_it_may() -> None:
    index = open_space(Graph(2, capacity=1), Limits())
    assert not index.is_full((1.0,))
    index.put("a", (1.0,))
    assert index.is_full((1.0,))
    assert not index.is_full((0.0,))
