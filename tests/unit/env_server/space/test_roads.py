"""Ways in graphs: exact, the same both ways, the first of several."""

import itertools
import math
import random

import networkx
import pytest

from env_server.model.spaces import Graph
from env_server.space.roads import Roads


def distance(roads: Roads, one: int, other: int) -> float:
    for length, node in roads.spread(one, hops=False):
        if node == other:
            return roads.distance(length, hops=False)
    return math.inf


def test_a_sum_of_weights_does_not_depend_on_its_order() -> None:
    weights = [0.1, 1e16, 0.3, 1e-9, 0.7, 3.3]
    roads = Roads(Graph(7, tuple((node, node + 1, weight) for node, weight in enumerate(weights))), 10_000)
    assert distance(roads, 0, 6) == distance(roads, 6, 0) == math.fsum(weights)


def test_of_weights_as_far_apart_as_doubles_are_none_is_lost() -> None:
    roads = Roads(Graph(3, ((0, 1, 5e-324), (1, 2, 1e308))), 100)
    assert distance(roads, 0, 1) == 5e-324
    assert distance(roads, 0, 2) == 1e308


def test_the_cheapest_of_parallel_edges_counts_and_loops_lead_nowhere() -> None:
    roads = Roads(Graph(2, ((0, 1, 3.0), (1, 0, 2.0), (0, 1, 5.0), (0, 0, 0.0))), 100)
    assert distance(roads, 0, 1) == distance(roads, 1, 0) == 2.0
    directed = Roads(Graph(2, ((0, 1, 3.0), (1, 0, 2.0)), directed=True), 100)
    assert (distance(directed, 0, 1), distance(directed, 1, 0)) == (3.0, 2.0)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("hops", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_way_is_the_first_of_the_shortest(seed: int, hops: bool, directed: bool) -> None:
    rng = random.Random(seed)
    nodes = 7
    edges = tuple((rng.randrange(nodes), rng.randrange(nodes), rng.choice([0.0, 1.0, 2.0])) for _ in range(12))
    roads = Roads(Graph(nodes, edges, directed=directed), 10_000)
    net = networkx.DiGraph() if directed else networkx.Graph()
    net.add_nodes_from(range(nodes))
    for one, other, weight in edges:
        if one != other and weight < net.get_edge_data(one, other, {"weight": math.inf})["weight"]:
            net.add_edge(one, other, weight=weight)
    for one, other in itertools.product(range(nodes), repeat=2):
        ways = [tuple(way) for way in networkx.all_simple_paths(net, one, other)] if one != other else [(one,)]
        cost = {way: sum(1 if hops else net[a][b]["weight"] for a, b in itertools.pairwise(way)) for way in ways}
        expected = min(ways, key=lambda way: (cost[way], len(way), way), default=())
        assert roads.way(one, other, hops=hops) == expected


def test_nodes_come_by_their_distance() -> None:
    roads = Roads(Graph(4, ((0, 1, 2.0), (0, 2, 1.0), (2, 1, 0.5), (1, 3, 0.0))), 100)
    told = [(node, roads.distance(length, hops=False)) for length, node in roads.spread(0, hops=False)]
    assert told == [(0, 0.0), (2, 1.0), (1, 1.5), (3, 1.5)]
    assert [node for _, node in roads.spread(3, hops=True, back=True)] == [3, 1, 0, 2]


def test_nodes_without_edges_take_no_memory() -> None:
    roads = Roads(Graph(100_000, ((0, 1, 1.0),)), 1000)
    assert len(roads._forth) == 2
    assert list(roads.spread(99_999, hops=False)) == [(0, 99_999)]
    assert roads.way(99_999, 0, hops=False) == ()
