"""Sharing agents out to workers, and checks of a launch as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_runtime.launching.workers import plan_launch, plan_workers
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import split_evenly
from agent_runtime.node.launches import refuse_launch
from agent_runtime.settings import parse_launch
from tests.unit.agent_runtime.stage import make_launch, write_agents


def make(folder: Path, ids: dict[str, list[str]], *, workers: int = 2, **more: Any) -> Any:
    groups = [
        {"name": name, "agent": "random", "agents": str(write_agents(folder / f"{name}.arrow", names)), "wake": [{}]}
        for name, names in ids.items()
    ]
    for group in groups:
        group.update(more.get(str(group["name"]), {}))
    models = {"small": {"provider": "local", "model": "small"}}
    return parse_launch({"run": "r", "workers": workers, "groups": groups, "models": models})


def test_every_agent_is_in_exactly_one_share_and_shares_are_even() -> None:
    for rows in (0, 1, 7, 1000):
        for parts in (1, 2, 3, 8):
            shares = split_evenly(rows, parts)
            assert [row for first, end in shares for row in range(first, end)] == list(range(rows))
            sizes = [end - first for first, end in shares]
            assert max(sizes) - min(sizes) <= 1


def list_parts(configs: Any) -> list[list[tuple[str, int, int]]]:
    return [[(part.name, part.first, part.end) for part in config.parts] for config in configs]


def test_each_worker_gets_its_rows_of_each_group(tmp_path: Path) -> None:
    launch = make(tmp_path, {"a": ["a1", "a2", "a3"], "b": ["b1", "b2"]}, a={"rows": [1, 3]})
    configs = plan_workers(launch, "host:1", "w", plan_launch(launch))
    assert list_parts(configs) == [[("a.0", 1, 2), ("b.0", 0, 1)], [("a.1", 2, 3), ("b.1", 1, 2)]]


def test_parts_stay_as_they_were_cut_whatever_the_workers(tmp_path: Path) -> None:
    launch = make(tmp_path, {"a": ["a1", "a2", "a3"]}, workers=3)
    parts = plan_launch(launch)
    two = plan_workers(launch.model_copy(update={"workers": 2}), "host:1", "w", parts)
    assert list_parts(two) == [[("a.0", 0, 1), ("a.2", 2, 3)], [("a.1", 1, 2)]]
    assert len(plan_launch(make(tmp_path, {"a": ["a1", "a2", "a3"]}, a={"parts": 1}))) == 1


def test_agents_of_a_local_model_live_in_the_first_worker(tmp_path: Path) -> None:
    local = {"agent": "prompted-player", "model": "small"}
    launch = make(tmp_path, {"a": ["a1", "a2"]}, a=local)
    configs = plan_workers(launch, "host:1", "w", plan_launch(launch))
    assert list_parts(configs) == [[("a.0", 0, 2)], []]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"a": ["x", "x"]}, "stands in two rows"),
        ({"a": ["x"], "b": ["x"]}, "'x' stands in two groups"),
        ({"a": ["ok", "not ok"]}, "row 1: 'not ok' is no agent id"),
        ({"a": ["x" * 65]}, "is no agent id"),
    ],
)
def test_bad_ids_are_refused_before_anything_starts(tmp_path: Path, ids: dict[str, list[str]], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        plan_launch(make(tmp_path, ids))


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"agent": "nobody"}, "no agent class 'nobody' is installed; there are .*level-k"),
        ({"agent": "json:loads"}, "is no class of agents"),
        ({"agent": "no.such.module:Class"}, "cannot load"),
        ({"agent": "level-k"}, "groups.a.parameters: level-k: needs level"),
        ({"agent": "prompted-player", "parameters": {"prompt": "p99"}}, "p99"),
        ({"rows": [0, 9]}, r"\[0, 9\) is not among them"),
    ],
)
def test_what_would_fail_in_every_worker_fails_before(tmp_path: Path, group: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        plan_launch(make(tmp_path, {"a": ["x"]}, a=group))


BROKEN = {
    "syntax": "def",
    "name": "nowhere",
    "zero": "1 / 0",
    "exit": "raise SystemExit(3)",
    "value": "raise ValueError('no luck')",
}
UNWILLING = """
from agent_runtime.agents.agent import Agent, RuleAgents
class One(Agent):
    @classmethod
    def check_group(cls, group):
        group.parameters["missing"]
class Many(RuleAgents):
    def __init__(self, group):
        raise SystemExit(4)
"""


@pytest.mark.parametrize("broken", BROKEN)
def test_a_module_that_fails_when_it_is_imported_is_the_launchs_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"broken_{broken}.py").write_text(BROKEN[broken])
    with pytest.raises(LaunchError, match=rf"groups\.a\.agent: cannot load 'broken_{broken}:Agents'") as refused:
        plan_launch(make(tmp_path, {"a": ["x"]}, a={"agent": f"broken_{broken}:Agents"}))
    # A node tells whoever launches nothing of what the module has said.
    assert refuse_launch(refused.value).message.endswith(f"'broken_{broken}:Agents': it cannot be loaded on this node")


@pytest.mark.parametrize(
    ("asked", "missing"),
    [("mine_gone:Miner", "mine_gone"), ("mine_gone.deep:Miner", "mine_gone"), ("mine_here:Miner", "")],
)
def test_a_module_that_is_not_there_is_told_and_what_to_do_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, missing: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_here.py").write_text("import kept_secret")
    with pytest.raises(LaunchError) as refused:
        plan_launch(make(tmp_path, {"a": ["x"]}, a={"agent": asked}))
    told = refuse_launch(refused.value).message
    assert "kept_secret" not in told
    assert (f"this node has no module {missing}: " in told) == bool(missing)


def test_a_class_that_is_not_in_its_module_is_told_and_no_other_that_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_empty.py").write_text("")
    (tmp_path / "mine_failing.py").write_text("import math\nmath.kept_secret")
    told = []
    for asked in ("mine_empty:Miner", "mine_failing:Miner"):
        with pytest.raises(LaunchError) as refused:
            plan_launch(make(tmp_path, {"a": ["x"]}, a={"agent": asked}))
        told.append(refuse_launch(refused.value).message)
    assert told[0].endswith("cannot load 'mine_empty:Miner': this node's module mine_empty has no Miner")
    assert told[1].endswith("cannot load 'mine_failing:Miner': it cannot be loaded on this node")


@pytest.mark.parametrize("name", ["One", "Many"])
def test_whatever_agents_code_raises_of_its_parameters_is_the_launchs_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "unwilling.py").write_text(UNWILLING)
    with pytest.raises(LaunchError, match=r"groups\.a\.parameters: (KeyError: 'missing'|SystemExit: 4)"):
        plan_launch(make(tmp_path, {"a": ["x"]}, a={"agent": f"unwilling:{name}"}))


def test_single_agents_of_all_groups_together_are_bounded(tmp_path: Path) -> None:
    ids = {name: [f"{name}-{number}" for number in range(200)] for name in ("a", "b")}
    with pytest.raises(LaunchError, match=r"groups.b.process: 400 agents, at most 256"):
        plan_launch(make(tmp_path, ids, a={"process": "agent"}, b={"process": "agent"}))


def test_a_file_that_is_no_table_of_agents_is_refused(tmp_path: Path) -> None:
    launch = make(tmp_path, {"a": ["x"]})
    launch.groups[0].agents.write_bytes(b"nothing")
    with pytest.raises(LaunchError, match="not an Arrow IPC file"):
        plan_launch(launch)


def test_agents_with_processes_of_their_own_have_them_behind_the_others(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, "random", ["a", "b", "c"], process="agent")
    alone = plan_workers(launch, "s", "w", plan_launch(launch))
    assert [[(part.first, part.end) for part in worker.parts] for worker in alone] == [[(0, 1)], [(1, 2)], [(2, 3)]]
    crowd = make_launch(tmp_path, "random", [f"a{n}" for n in range(257)], process="agent")
    with pytest.raises(LaunchError, match=r"groups.g.process: 257 agents, at most 256"):
        plan_launch(crowd)
