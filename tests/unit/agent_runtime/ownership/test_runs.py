"""What makes a run the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_runtime.launching.agents import digest_populations
from agent_runtime.ownership.runs import digest_launch
from agent_runtime.settings import Launch, parse_launch
from tests.unit.agent_runtime.stage import WAKE, write_agents


def make(folder: Path, ids: list[str], **more: Any) -> Launch:
    group = {"name": "g", "agent": "level-k", "parameters": {"level": 1}, "wake": list(WAKE)}
    group["agents"] = str(write_agents(folder / f"{more.pop('file', 'a')}.arrow", ids))
    group |= more.pop("group", {})
    return parse_launch({"run": "r", "groups": [group], **more})


def digest(launch: Launch) -> str:
    return digest_launch(launch, digest_populations(launch))


def test_where_and_with_how_many_workers_it_runs_makes_no_other_run(tmp_path: Path) -> None:
    first = digest(make(tmp_path, ["a", "b"], workers=1))
    again = make(tmp_path, ["a", "b"], workers=7, node="other", resume=True, file="b", group={"parts": 9})
    assert digest(again) == first


@pytest.mark.parametrize(
    "change",
    [{"seed": 2}, {"group": {"parameters": {"level": 2}}}, {"group": {"name": "h"}}, {"group": {"rows": [0, 1]}}],
)
def test_another_seed_or_group_makes_another_run(tmp_path: Path, change: dict[str, Any]) -> None:
    assert digest(make(tmp_path, ["a", "b"], **change)) != digest(make(tmp_path, ["a", "b"]))


@pytest.mark.parametrize("ids", [["a", "c"], ["b", "a"], ["ab", ""], ["a", "b", "c"]])
def test_other_agents_make_another_run(tmp_path: Path, ids: list[str]) -> None:
    assert digest(make(tmp_path, ids, file="b")) != digest(make(tmp_path, ["a", "b"]))


def test_a_slice_of_a_file_is_what_is_in_it(tmp_path: Path) -> None:
    whole = make(tmp_path, ["x", "a", "b"], group={"rows": [1, 3]})
    alone = make(tmp_path, ["a", "b"], file="b", group={"rows": [0, 2]})
    assert digest_populations(whole) == digest_populations(alone)
