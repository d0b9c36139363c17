"""What a runtime is launched with: it accepts it, and every agent stands in exactly one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ecumene.sim import SpecError, parse_spec
from ecumene.sim.population import build_population
from ecumene.sim.run_demo import make_demo_spec, make_llm_demo_spec
from ecumene.sim.run_launch import choose_workers, write_launch
from ecumene.sim.spec import RunSpec

from agent_runtime.settings import Launch, load_launch


def launch(spec: RunSpec, directory: Path) -> Launch:
    """The launch of a spec, as the runtime reads it."""
    population = build_population(spec.population, spec.seed)
    return load_launch(write_launch(spec, population, run="run-1", directory=directory, workers=None))


def read_agents(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of agents."""
    with pa.memory_map(str(path)) as file:
        rows: list[dict[str, Any]] = pa.ipc.open_file(file).read_all().to_pylist()
    return rows


def test_the_demo_is_launched_with_every_agent_once(tmp_path: Path) -> None:
    spec = make_demo_spec(agents=1000, rounds=5, seed=7, directory=tmp_path)
    launched = launch(spec, tmp_path)
    assert (launched.run, launched.seed, launched.workers) == ("run-1", 7, 1)
    assert launched.recording == tmp_path.resolve()
    ids = [row["agent_id"] for group in launched.groups for row in read_agents(group.agents)]
    assert len(ids) == 1000
    assert set(ids) == set(build_population(spec.population, 7).name_agents())
    assert {group.name: group.agent for group in launched.groups}["noisy"] == "noisy-level-k"
    assert {group.name: dict(group.parameters) for group in launched.groups}["level-2"] == {"level": 2}


def test_the_demo_on_a_model_asks_it_under_its_name(tmp_path: Path) -> None:
    launched = launch(make_llm_demo_spec(agents=30, rounds=2, seed=1, directory=tmp_path), tmp_path)
    (group,) = launched.groups
    assert (group.agent, dict(group.parameters)) == ("prompted-player", {"prompt": "guess-p1"})
    assert group.model is not None
    model = launched.models[group.model]
    assert (model.provider, model.slots, model.in_flight_max, model.record_bodies) == ("local", 16, 16, True)


def test_groups_with_temperatures_of_their_own_ask_models_of_their_own(tmp_path: Path) -> None:
    groups = [
        {"name": name, "agent": "prompted", "count": 1, "persona": name, "parameters": {"temperature": temperature}}
        for name, temperature in (("cold", 0.0), ("hot", 1.5))
    ]
    model = {"provider": "openai", "name": "m", "endpoint": "http://127.0.0.1:1/v1", "api_key_variable": "KEY"}
    spec = parse_spec({"name": "x", "population": {"groups": groups}, "model": model})
    launched = launch(spec, tmp_path)
    asked = {group.name: launched.models[group.model or ""] for group in launched.groups}
    assert {name: found.temperature for name, found in asked.items()} == {"cold": 0.0, "hot": 1.5}
    assert {found.api_key_env for found in asked.values()} == {"KEY"}
    assert [row["persona"] for row in read_agents(launched.groups[0].agents)] == ["cold"]


def test_a_group_that_got_nobody_is_left_out(tmp_path: Path) -> None:
    groups = [{"name": "all", "agent": "random", "count": 3}, {"name": "none", "agent": "equilibrium", "count": 0}]
    launched = launch(parse_spec({"name": "x", "population": {"groups": groups}}), tmp_path)
    assert [group.name for group in launched.groups] == ["all"]


def test_what_the_runtime_does_not_offer_is_a_problem_of_the_spec(tmp_path: Path) -> None:
    group = {"name": "p", "agent": "prompted", "count": 1, "parameters": {"fallback": 50}}
    with pytest.raises(SpecError, match=r"population\.groups\[0\]\.parameters\.fallback"):
        launch(parse_spec({"name": "x", "population": {"groups": [group]}}), tmp_path)


def test_a_launch_holds_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "very-secret")
    model = {"provider": "openai", "name": "m", "endpoint": "http://127.0.0.1:1/v1", "api_key_variable": "KEY"}
    groups = [{"name": "p", "agent": "prompted", "count": 1}]
    launch(parse_spec({"name": "x", "population": {"groups": groups}, "model": model}), tmp_path)
    described = (tmp_path / "launch" / "launch.json").read_text(encoding="utf-8")
    assert "very-secret" not in described
    assert json.loads(described)["models"]["m"]["api_key_env"] == "KEY"


def test_few_agents_get_one_worker() -> None:
    assert choose_workers(1) == choose_workers(20_000) == 1
