"""Where the parts of a run go: room, labels, providers, and no node with more than its share."""

from __future__ import annotations

import itertools

import pytest
from ecumene.client.runtime_model import NodeRecord
from ecumene.launch import PlacementError
from ecumene.launch.node_runs import GroupAgents, read_needs
from ecumene.launch.placement import GroupNeeds, NodeRoom, Plan, plan_placement


def make_room(name: str, *, agents: int = 10_000_000, processes: int = 4, workers: int = 2, **labels: str) -> NodeRoom:
    return NodeRoom(NodeRecord(name, f"{name}:1", labels, models=("scripted",), workers=workers), agents, processes)


def count_agents(plan: Plan) -> dict[str, int]:
    sizes = {part.name: len(part) for part in plan.parts}
    return {node: sum(sizes[name] for name in names) for node, names in plan.hosted.items()}


def test_every_agent_is_in_one_part_and_nodes_share_by_their_workers() -> None:
    plan = plan_placement([GroupNeeds("g", 1_000_001)], [make_room("a", workers=6), make_room("b", workers=2)])
    assert len(plan.parts) == 8
    bounds = [(part.first_row, part.end_row) for part in plan.parts]
    assert bounds[0][0] == 0 and bounds[-1][1] == 1_000_001
    assert all(left[1] == right[0] for left, right in itertools.pairwise(bounds))
    agents = count_agents(plan)
    assert agents["a"] / agents["b"] == pytest.approx(3, rel=0.01)


def test_few_agents_are_not_spread_over_workers_that_they_are_not_worth() -> None:
    plan = plan_placement([GroupNeeds("g", 100)], [make_room("a"), make_room("b")])
    assert [len(part) for part in plan.parts] == [100]


def test_parts_that_the_launch_names_are_kept_to() -> None:
    plan = plan_placement([GroupNeeds("g", 100, parts=4)], [make_room("a"), make_room("b")])
    assert count_agents(plan) == {"a": 50, "b": 50}


def test_labels_and_providers_are_kept_to() -> None:
    rooms = [make_room("a"), make_room("b", gpu="yes")]
    assert count_agents(plan_placement([GroupNeeds("g", 9, labels={"gpu": "yes"})], rooms)) == {"b": 9}
    with pytest.raises(PlacementError, match="no node has gpu=no, the provider vllm"):
        plan_placement([GroupNeeds("g", 9, labels={"gpu": "no"}, providers=frozenset({"vllm"}))], rooms)


def test_a_node_without_room_gets_nothing() -> None:
    rooms = [make_room("a", agents=10), make_room("b")]
    assert count_agents(plan_placement([GroupNeeds("g", 100, parts=2)], rooms)) == {"b": 100}
    with pytest.raises(PlacementError, match="has room for 50 agents"):
        plan_placement([GroupNeeds("g", 100, parts=2)], [make_room("a", agents=80)])


def test_single_agents_take_processes() -> None:
    rooms = [make_room("a", processes=2), make_room("b", processes=1)]
    plan = plan_placement([GroupNeeds("g", 3, is_single=True)], rooms)
    assert count_agents(plan) == {"a": 2, "b": 1}
    with pytest.raises(PlacementError, match="has room for process"):
        plan_placement([GroupNeeds("g", 4, is_single=True)], [make_room("a", processes=2)])


def test_a_group_that_asks_a_local_model_is_one_part() -> None:
    room = NodeRoom(NodeRecord("a", "a:1", models=("local",), workers=4), 10_000_000, 4)
    assert len(plan_placement([GroupNeeds("g", 500_000, providers=frozenset({"local"}))], [room]).parts) == 1


def test_a_group_with_a_mix_of_models_needs_the_providers_of_all_of_them() -> None:
    models = {"a": {"provider": "openai"}, "b": {"provider": "vllm"}, "c": {"provider": "replay"}}
    agents = {"g": GroupAgents(10)}
    cases: list[tuple[object, set[str]]] = [
        ({"weights": {"a": 1, "b": 2}}, {"openai", "vllm"}),
        ({"attribute": "x", "assigned": {"high": "a"}, "otherwise": "c"}, {"openai", "replay"}),
        ("c", {"replay"}),
        (None, set()),
        ({"weights": 5}, set()),
        (["a"], set()),
    ]
    for choice, wanted in cases:
        (needs,) = read_needs({"models": models, "groups": [{"name": "g", "model": choice}]}, agents)
        assert needs.providers == wanted
    mixed = GroupNeeds("g", 100_000, providers=frozenset({"openai", "vllm"}))
    both = NodeRoom(NodeRecord("a", "a:1", models=("openai", "vllm"), workers=4), 1_000_000, 4)
    assert len(plan_placement([mixed], [both]).parts) == 1  # a model that is loaded is loaded once a node
    with pytest.raises(PlacementError, match="the provider openai, the provider vllm"):
        plan_placement([mixed], [NodeRoom(NodeRecord("a", "a:1", models=("openai",), workers=4), 1_000_000, 4)])
