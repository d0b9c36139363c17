"""What of a launch cannot be run is told at once, with its place; prompts are measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_runtime.launching.checking import check_launch
from agent_runtime.settings import parse_launch
from tests.unit.agent_runtime.stage import write_agents


def make(folder: Path, *groups: dict[str, Any], **models: dict[str, Any]) -> Any:
    described = [
        {
            "agents": str(write_agents(folder / f"{place}.arrow", [f"x{place}"])),
            "wake": [{}],
            "name": f"g{place}",
            **one,
        }
        for place, one in enumerate(groups)
    ]
    return parse_launch({"run": "r", "workers": 1, "groups": described, "models": models})


def test_each_group_and_model_is_told_of(tmp_path: Path) -> None:
    launch = make(
        tmp_path,
        {"agent": "none"},
        {"agent": "level-k", "parameters": {"level": "x"}},
        {"agent": "prompted-player", "model": "m", "parameters": {"prompt": "guess-p2"}},
        {"agent": "prompted-player"},
        m={"provider": "scripted", "answers": "none_such:f"},
    )
    told = check_launch(launch)
    places = [problem["where"] for problem in told["problems"]]
    assert places == ["groups.g0.agent", "groups.g1.parameters", "groups.g3.model", "models.m.answers"]
    assert list(told["prompts"]) == ["g2"]
    first, later = told["prompts"]["g2"]
    assert 20 < first < 2_000 and 20 < later < 2_000
