"""Launch descriptions: what is accepted, and how a mistake is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.model.errors import LaunchError
from agent_runtime.settings import load_launch, parse_launch


def describe(**group: Any) -> dict[str, Any]:
    return {"run": "r", "groups": [{"name": "g", "agent": "random", "agents": "a.arrow", "wake": [{}], **group}]}


def test_relative_paths_count_from_the_description(tmp_path: Path) -> None:
    path = tmp_path / "launch.json"
    path.write_text(json.dumps({**describe(), "recording": "rec"}), encoding="utf-8")
    launch = load_launch(path)
    assert launch.groups[0].agents == tmp_path / "a.arrow"
    assert launch.recording == tmp_path / "rec"


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"name": "G!"}, "groups.0.name: "),
        ({"wake": []}, "groups.0.wake: "),
        ({"wake": [{"types": ["birthday"]}]}, "no event type is called birthday"),
        ({"model": "gpt"}, "asks model 'gpt'"),
        ({"turn_timeout_s": 0}, "groups.0.turn_timeout_s: "),
        ({"thinking": {"kind": "uniform", "low_ms": 5, "high_ms": 1}}, "high_ms 1 is below low_ms 5"),
        ({"colour": "red"}, "groups.0.colour: "),
    ],
)
def test_a_mistake_is_told_in_one_line_with_its_place(group: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        parse_launch(describe(**group))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unreadable_description_is_told_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"launch\.json: cannot be read: No such file"):
        load_launch(tmp_path / "launch.json")


def test_two_groups_of_one_name_are_refused() -> None:
    document = describe()
    document["groups"] *= 2
    with pytest.raises(LaunchError, match="same name"):
        parse_launch(document)
