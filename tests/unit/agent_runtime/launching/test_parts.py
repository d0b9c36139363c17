"""The one rule by which groups are cut: on a node, for one launch, and at a client that places parts on nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ecumene.launch.node_runs import GroupAgents, read_needs
from ecumene.launch.placement import cut_group

from agent_runtime.launching.parts import AGENTS_PER_PART_MIN, count_parts, plan_parts
from agent_runtime.settings import parse_launch
from tests.unit.agent_runtime.stage import make_launch

ROWS = (0, 1, 7, AGENTS_PER_PART_MIN - 1, AGENTS_PER_PART_MIN, 3 * AGENTS_PER_PART_MIN + 1, 1_000_000)
GROUPS: dict[str, dict[str, Any]] = {
    "plain": {},
    "parts": {"parts": 5},
    "alone": {"process": "agent"},
    "api": {"model": "far"},
    "local": {"model": "near"},
    "engines": {"model": "engines"},
    "mixed": {"model": {"weights": {"far": 1, "near": 1}}, "parts": 3},
}
MODELS = {
    "far": {"provider": "openai", "model": "m", "base_url": "http://localhost:1/v1"},
    "near": {"provider": "local", "model": "m"},
    "engines": {"provider": "vllm", "model": "m"},
}


@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("workers", [1, 3, 64])
def test_a_client_cuts_groups_as_a_node_does(kind: str, workers: int) -> None:
    group = {"name": "g", "agent": "prompted-player", "agents": "/agents.arrow", "wake": [{}], **GROUPS[kind]}
    document = {"run": "r", "groups": [group], "models": MODELS}
    launch = parse_launch(document)
    for rows in ROWS[:4] if kind == "alone" else ROWS:
        (needs,) = read_needs(document, {"g": GroupAgents(rows)})
        assert len(cut_group(needs, workers)) == count_parts(launch, launch.groups[0], rows, workers)


def test_parts_of_a_group_are_even_and_begin_where_its_rows_do(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, "random", [f"a{n}" for n in range(10)], rows=[2, 9], parts=3)
    parts = plan_parts(launch, {"g": range(7)}, workers=1)  # type: ignore[dict-item]
    assert [(part.first, part.end) for part in parts] == [(2, 4), (4, 6), (6, 9)]


def test_a_launch_that_says_how_many_workers_it_has_is_cut_for_them(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, "random", ["a", "b", "c"])
    for named, wanted in ((None, 1), (2, 2), (8, 3)):
        group = launch.groups[0]
        assert count_parts(launch.model_copy(update={"workers": named}), group, 3, workers=4) == wanted
