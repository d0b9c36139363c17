"""The ready rule players as agents of a runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.agent_runtime.stage import make_launch, set_stage


@pytest.mark.parametrize("level", [0, 1, 2, 3])
async def test_level_k_agents_report_fifty_times_the_ratio_to_the_k(tmp_path: Path, level: int) -> None:
    launch = make_launch(tmp_path, "level-k", ["a", "b"], parameters={"level": level})
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round(1, ratio=0.5)
        await stage.wait_turns(2)
    assert stage.world.reports() == {"a": 50 * 0.5**level, "b": 50 * 0.5**level}


@pytest.mark.parametrize(
    ("agent", "parameters"),
    [
        ("random", {}),
        ("listed", {"numbers": [9, 7]}),
        ("noisy-level-k", {"level": 1, "deviation": 5.0}),
        ("equilibrium", {}),
    ],
)
async def test_numbers_follow_from_seed_agent_and_round_alone(
    tmp_path: Path, agent: str, parameters: dict[str, Any]
) -> None:
    ids = [f"p{number}" for number in range(20)]
    seen = []
    for order in (ids, ids[::-1]):
        folder = tmp_path / f"order-{order[0]}"
        folder.mkdir()
        async with set_stage(folder, make_launch(folder, agent, order, parameters=parameters, seed=5)) as stage:
            stage.world.open_round(1)
            await stage.wait_turns(20)
        seen.append(stage.world.reports())
    assert seen[0] == seen[1]
    assert all(0 <= number <= 100 for number in seen[0].values())


async def test_an_event_that_opens_no_round_fails_each_turn_with_the_reason(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, "level-k", ["a"], parameters={"level": 1})
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round(1, ratio="two thirds")
        await stage.wait_turns(1)
    (turn,) = stage.read("turns")
    assert turn["status"] == "error"
    assert "opens no round" in turn["reason"]


@pytest.mark.parametrize("groups", [[1], "abc", {"a": "many"}])
async def test_groups_of_another_form_open_no_round(tmp_path: Path, groups: Any) -> None:
    launch = make_launch(tmp_path, "level-k", ["a"], parameters={"level": 1})
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round(1, groups=groups)
        await stage.wait_turns(1)
    (turn,) = stage.read("turns")
    assert turn["status"] == "error"
    assert "opens no round" in turn["reason"]
