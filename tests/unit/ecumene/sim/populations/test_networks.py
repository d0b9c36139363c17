"""Networks have the shape that their kind is known for, follow from the seed, and hold no edge twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.networks import Network, build_networks
from ecumene.sim.populations.population import build_population
from ecumene.sim.specs.population import PopulationSpec

KINDS: dict[str, dict[str, Any]] = {
    "ring": {"small_world": {"neighbours": 10, "rewired": 0}},
    "small": {"small_world": {"neighbours": 10, "rewired": 0.1}},
    "few-know-many": {"scale_free": {"edges": 5}},
    "alike": {"homophily": {"by": ["school", "town"], "alike": 0.7, "neighbours": 10}},
}
ATTRIBUTES = {"school": {"values": ["low", "high"]}, "town": {"values": ["東京", "Łódź", "Oslo"]}}


def build(size: int, seed: int, networks: dict[str, Any] | None = None) -> dict[str, Network]:
    """The networks of a population of some size."""
    spec = PopulationSpec.model_validate(
        {
            "size": size,
            "groups": [{"name": "all", "agent": "random", "share": 1}],
            "attributes": ATTRIBUTES,
            "networks": networks or KINDS,
        }
    )
    return build_networks(spec.networks, build_population(spec, seed), seed)


def to_networkx(network: Network) -> Any:
    """The same as a graph of networkx, all agents in it."""
    graph = networkx.Graph(network.edges.tolist())
    graph.add_nodes_from(range(len(network.agents)))
    return graph


@pytest.mark.parametrize("size", [1, 2, 3, 5, 11, 300])
def test_edges_are_distinct_and_follow_from_the_seed(size: int, seed: int) -> None:
    for (name, one), same in zip(build(size, seed).items(), build(size, seed).values(), strict=True):
        assert np.array_equal(one.edges, same.edges), name
        assert (one.edges[:, 0] < one.edges[:, 1]).all()
        assert len(np.unique(one.edges, axis=0)) == len(one.edges)
        assert one.edges.max(initial=0) < size
        assert one.degrees.sum() == 2 * len(one.edges)
    assert not np.array_equal(build(300, seed)["small"].edges, build(300, seed + 1)["small"].edges)


def test_a_small_world_has_short_ways_and_circles(seed: int) -> None:
    found = build(2_000, seed)
    ring, small = to_networkx(found["ring"]), to_networkx(found["small"])
    assert set(found["ring"].degrees) == {10}
    assert networkx.average_clustering(ring) == pytest.approx(2 / 3)  # 3 (k - 2) / 4 (k - 1), k = 10
    # Barrat and Weigt 2000: (1 - p)^3 of the ring's.
    assert networkx.average_clustering(small) == pytest.approx(2 / 3 * 0.9**3, abs=0.03)
    assert small.number_of_edges() == ring.number_of_edges() == 10_000
    ways = [networkx.single_source_shortest_path_length(graph, 0) for graph in (ring, small)]
    assert np.mean(list(ways[1].values())) < np.mean(list(ways[0].values())) / 10


def test_in_a_scale_free_network_few_know_many(seed: int) -> None:
    network = build(20_000, seed)["few-know-many"]
    assert networkx.is_connected(to_networkx(network))
    assert network.degrees.mean() == pytest.approx(10, rel=0.02)
    assert network.degrees.max() > 200
    # P(degree >= k) = m (m + 1) / k (k + 1) (Dorogovtsev, Mendes, Samukhin 2000)
    for least in (10, 20, 40):
        wanted = 5 * 6 / (least * (least + 1))
        assert (network.degrees >= least).mean() == pytest.approx(wanted, rel=0.15)


def test_people_know_people_like_themselves(seed: int) -> None:
    spec = PopulationSpec.model_validate(
        {
            "size": 6_000,
            "groups": [{"name": "all", "agent": "random", "share": 1}],
            "attributes": ATTRIBUTES,
            "networks": KINDS,
        }
    )
    population = build_population(spec, seed)
    network = build_networks(spec.networks, population, seed)["alike"]
    rows = population.profiles.to_pylist()  # type: ignore[union-attr]
    kinds = np.array([f"{row['school']} {row['town']}" for row in rows])
    alike = (kinds[network.edges[:, 0]] == kinds[network.edges[:, 1]]).mean()
    assert alike == pytest.approx(0.7 + 0.3 / 6, abs=0.02)  # and of those drawn among all, one in six
    assert network.degrees.mean() == pytest.approx(10)


def test_a_file_of_edges_is_taken_as_it_is(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("from,to\n2,0\n0,2\n1,1\n1,2\n", encoding="utf-8")
    network = build(3, seed, {"given": {"file": str(path)}})["given"]
    assert network.edges.tolist() == [[0, 2], [1, 2]]
    path.write_text("from,to\nagent-000003,agent-000001\nagent-000002,agent-000003\n", encoding="utf-8")
    again = build(3, seed, {"given": {"file": str(path)}})["given"]
    assert again.tabulate().to_pylist() == [
        {"from": "agent-000001", "to": "agent-000003"},
        {"from": "agent-000002", "to": "agent-000003"},
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("from,to\n0,3\n", "3 in column 'to' is no agent"),
        ("from,to\n-1,1\n", "-1 in column 'from' is no agent"),
        ("from,to\nagent-000001,bob\n", "'bob' in column 'to' is no agent"),
        ("a,b\n0,1\n", "no column is called 'from'"),
    ],
)
def test_edges_of_nobody_are_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PopulationError, match=told):
        build(3, 1, {"given": {"file": str(path)}})


def test_a_network_is_a_space(seed: int) -> None:
    network = build(50, seed)["small"]
    space = network.to_space()
    assert (space.nodes, len(space.edges), space.directed) == (50, 250, False)
    assert space.number("agent-000050") == 49
