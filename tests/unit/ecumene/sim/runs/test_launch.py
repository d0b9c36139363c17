"""What a runtime is launched with: it accepts it, and every agent stands in exactly one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ecumene.launch.launch_files import read_launch
from ecumene.sim import SpecError, parse_spec
from ecumene.sim.populations.population import build_population
from ecumene.sim.runs.budgets import plan_quotas, raise_budgets
from ecumene.sim.runs.demo import make_demo_spec, make_llm_demo_spec
from ecumene.sim.runs.launch import choose_workers, write_launch
from ecumene.sim.specs.models import ModelSpec
from ecumene.sim.specs.spec import RunSpec, load_spec

from agent_runtime.launching.workers import plan_launch
from agent_runtime.llm.settings import ModelSettings
from agent_runtime.node.populations import write_files
from agent_runtime.settings import Launch, load_launch

LAUNCHED_AS = {
    "name": "model",
    "endpoint": "base_url",
    "url": "base_url",
    "api_key_variable": "api_key_env",
}
"""Fields of a spec's model that a launch calls otherwise."""
MODELS: dict[str, dict[str, Any]] = {
    "hosted": {
        "provider": "openai",
        "name": "meta/large-1",
        "endpoints": [
            {"url": "http://a/v1", "weight": 2, "in_flight_max": 3, "api_key_variable": "A"},
            {"url": "http://b/v1"},
        ],
        "api_key_variable": "KEY",
        "max_tokens_field": "max_completion_tokens",
        "temperature": 0.7,
        "seed_answers": True,
        "max_tokens": 99,
        "two_call": True,
        "in_flight_max": 8,
        "queue_max": 9,
        "requests_per_minute": 60,
        "tokens_per_minute": 6000,
        "tokens_max": 1000,
        "microdollars_max": 500,
        "price": {"prompt": 1, "completion": 2},
        "prompt_tokens_max": 400,
        "turn_tokens_max": 800,
        "quota": "shared",
        "timeout_s": 5.0,
        "attempts_max": 2,
        "retry_total_s": 9.0,
        "repairs_max": 0,
        "breaker_failures": 3,
        "cache": "answers.sqlite",
        "cache_bytes_max": 1000,
    },
    "plain": {"provider": "openai", "name": "m", "endpoint": "http://a/v1", "api_key_file": "key.txt"},
    "scripted": {
        "latency": {"kind": "lognormal", "median_ms": 5, "sigma": 0.5},
        "faults": {"garbage": 0.1},
        "answers": "agent_runtime.agents.scripted_answers:guess_number",
    },
    "local": {"provider": "local", "slots": 4, "context_tokens": 1024, "threads": 1},
    "vllm": {"provider": "vllm", "vllm": {"engines": 2, "gpus": 1, "arguments": {"max_model_len": 512}}},
    "replay": {"provider": "replay", "replay_from": "runs/x"},
}


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


def test_attributes_stand_in_the_rows_of_agents_and_in_their_personas(tmp_path: Path) -> None:
    groups = [
        {"name": "told", "agent": "prompted", "count": 2, "persona": "You are {name} of {town}, {age}. {Not} {1}"},
        {"name": "bare", "agent": "random", "count": 1, "attributes": {"age": 7.5}},
    ]
    attributes = {
        "name": {"values": ["Zoë {age}"]},
        "town": {"categories": {"東京": 1}},
        "age": {"values": [41.0]},
        "Not": {"values": ["so"]},
    }
    spec = parse_spec({"name": "x", "population": {"groups": groups, "attributes": attributes}})
    told, bare = launch(spec, tmp_path).groups
    shared = {"name": "Zoë {age}", "town": "東京", "Not": "so"}
    persona = "You are Zoë {age} of 東京, 41. so {1}"
    assert [row | {"agent_id": ""} for row in read_agents(told.agents)] == [
        {"agent_id": "", "age": 41.0, **shared, "persona": persona}
    ] * 2
    (row,) = read_agents(bare.agents)
    assert row | {"agent_id": ""} == {"agent_id": "", "age": 7.5, **shared}


def test_attributes_reach_nodes_in_pieces_too(tmp_path: Path) -> None:
    groups = [{"name": "all", "agent": "random", "count": 300}]
    attributes = {"town": {"values": ["東京", "Łódź"]}, "age": {"template": "age"}}
    spec = parse_spec({"name": "x", "population": {"groups": groups, "attributes": attributes}})
    path = write_launch(
        spec, build_population(spec.population, 1), run="r", directory=tmp_path, workers=None, parts_of_nodes=True
    )
    _, agents = read_launch(path)
    stream = agents["all"].stream
    pieces = [stream[:1_000], stream[1_000:]]
    arrived = write_files(tmp_path / "scratch", {"all": pieces})["all"]
    assert read_agents(arrived) == read_agents(path.parent / "all.arrow")


def test_a_group_that_got_nobody_is_left_out(tmp_path: Path) -> None:
    groups = [{"name": "all", "agent": "random", "count": 3}, {"name": "none", "agent": "equilibrium", "count": 0}]
    launched = launch(parse_spec({"name": "x", "population": {"groups": groups}}), tmp_path)
    assert [group.name for group in launched.groups] == ["all"]


def test_a_fallback_is_the_rule_player_that_it_names(tmp_path: Path) -> None:
    fallback = {"player": "level-k", "level": 2}
    group = {"name": "p", "agent": "prompted", "count": 1, "parameters": {"fallback": fallback}}
    launched = launch(parse_spec({"name": "x", "population": {"groups": [group]}}), tmp_path)
    assert dict(launched.groups[0].parameters) == {"prompt": "guess-p2", "fallback": fallback}
    plan_launch(launched)


def test_where_groups_play_prompted_agents_are_told_which_and_notes_are_told_where_asked_for(tmp_path: Path) -> None:
    groups = [
        {"name": "a", "agent": "prompted", "count": 1, "parameters": {"prompt": "guess-p6"}},
        {"name": "b", "agent": "prompted", "count": 2, "parameters": {"prompt": "guess-p2", "note": True}},
        {"name": "nobody", "agent": "random", "count": 0},
    ]
    spec = parse_spec({"name": "x", "population": {"groups": groups}, "game": {"players": "groups"}})
    launched = launch(spec, tmp_path)
    told = {"groups_play": ["a", "b"]}
    assert [dict(group.parameters) for group in launched.groups] == [
        {"prompt": "guess-p6", **told},
        {"prompt": "guess-p2", "note": True, **told},
    ]
    plan_launch(launched)


@pytest.mark.parametrize(("deadline_s", "timeout_s"), [(60, 300), (3600, 3600)])
def test_no_turn_is_given_up_before_its_round_for_waiting_for_its_model(
    tmp_path: Path, deadline_s: float, timeout_s: float
) -> None:
    group = {"name": "p", "agent": "prompted", "count": 1}
    spec = parse_spec({"name": "x", "population": {"groups": [group]}, "game": {"deadline_s": deadline_s}})
    assert launch(spec, tmp_path).groups[0].turn_timeout_s == timeout_s


def test_a_rule_answers_for_a_model(tmp_path: Path) -> None:
    group = {"name": "p", "agent": "prompted", "count": 1}
    answers = {"player": "listed", "numbers": [32.91, 17.58]}
    spec = parse_spec({"name": "x", "population": {"groups": [group]}, "model": {"answers": answers}})
    assert launch(spec, tmp_path).models["scripted"].answers == answers


@pytest.mark.parametrize("document", list(MODELS.values()), ids=list(MODELS))
def test_what_a_spec_says_of_a_model_is_what_the_runtime_reads(tmp_path: Path, document: dict[str, Any]) -> None:
    groups = [{"name": "p", "agent": "prompted", "count": 1, "model": "m"}]
    spec = parse_spec({"name": "x", "population": {"groups": groups}, "models": {"m": document}})
    launched = launch(spec, tmp_path)
    read = launched.models["m"].model_dump(mode="json")
    for field, value in document.items():
        name = LAUNCHED_AS.get(field, field)
        expected = (
            [{LAUNCHED_AS.get(k, k): v for k, v in one.items()} for one in value] if field == "endpoints" else value
        )
        if field in ("cache", "replay_from", "api_key_file"):
            expected = str(Path(value).resolve())
        if isinstance(expected, dict):
            assert expected.items() <= read[name].items()
        elif field == "endpoints":
            for one, other in zip(expected, read[name], strict=True):
                assert one.items() <= other.items()
        else:
            assert read[name] == expected, field


def test_a_spec_has_every_setting_of_a_model_that_a_launch_has() -> None:
    said = {LAUNCHED_AS.get(field, field) for document in MODELS.values() for field in document}
    assert said == set(ModelSettings.model_fields) - {"record_bodies", "temperature_column", "seed_column"}
    assert {LAUNCHED_AS.get(field, field) for field in ModelSpec.model_fields} - {"latency_ms"} == said


def test_a_mix_is_drawn_by_weight_among_models_at_the_groups_temperature(tmp_path: Path) -> None:
    group = {"name": "p", "agent": "prompted", "count": 9, "models": {"a": 1, "b": 2}}
    group["parameters"] = {"temperature": 0.5}
    spec = parse_spec({"name": "x", "population": {"groups": [group]}, "models": {"a": {}, "b": {}, "c": {}}})
    launched = launch(spec, tmp_path)
    assert launched.groups[0].models() == {"a@0.5", "b@0.5"} == set(launched.models)
    assert launched.groups[0].model.weights == {"a@0.5": 1, "b@0.5": 2}  # type: ignore[union-attr]


def test_budgets_are_left_to_quotas_of_the_world_where_they_can_be_raised(tmp_path: Path) -> None:
    document = {
        "name": "x",
        "population": {"groups": [{"name": "p", "agent": "prompted", "count": 9, "models": {"a": 1, "b": 2}}]},
        "models": {
            "a": {"tokens_max": 500, "requests_per_minute": 60},
            "b": {"tokens_per_minute": 900, "tokens_max": 7, "quota": "shared"},
        },
        "budget": {"tokens_max": 1000},
    }
    spec = parse_spec(document)
    quotas = plan_quotas(spec, "run-1", over_nodes=False)
    assert quotas.of_run is not None
    assert quotas.of_run.limits == {"tokens_max": 1000}
    assert {name: quota.limits for name, quota in quotas.of_models.items()} == {
        "a": {"tokens_max": 500, "requests_per_minute": 60}
    }
    population = build_population(spec.population, spec.seed)
    path = write_launch(spec, population, run="run-1", directory=tmp_path, workers=None, quotas=quotas)
    launched = load_launch(path)
    a, b = launched.models["a"], launched.models["b"]
    assert (a.quota, a.tokens_max, a.requests_per_minute) == (quotas.of_models["a"].name, None, None)
    assert (b.quota, b.tokens_max, b.tokens_per_minute) == ("shared", 7, 900)
    assert (launched.budget.quota, launched.budget.when_spent) == (quotas.of_run.name, "hold")
    raised = raise_budgets(spec, {"tokens_max": {"run": 2000, "a": 600}, "microdollars_max": {}})
    assert (raised.budget.tokens_max, raised.models["a"].tokens_max) == (2000, 600)
    for whose in ("b", "c"):
        with pytest.raises(SpecError, match=f"called '{whose}'; there are a"):
            raise_budgets(spec, {"tokens_max": {whose: 1}})


def test_over_nodes_parts_follow_from_the_agents_and_limits_hold_over_all(tmp_path: Path) -> None:
    groups = [{"name": "p", "agent": "prompted", "count": 4}, {"name": "r", "agent": "random", "count": 60_000}]
    spec = parse_spec({"name": "x", "population": {"groups": groups}, "model": {"requests_per_minute": 60}})
    quotas = plan_quotas(spec, "run-1", over_nodes=True)
    assert [quota.limits for quota in quotas.list_all()] == [{}, {"requests_per_minute": 60}]
    more = raise_budgets(spec, {"tokens_max": {"run": 10, "scripted": 5}})
    assert [quota.limits for quota in plan_quotas(more, "run-1", over_nodes=True).list_all()] == [
        {"tokens_max": 10},
        {"requests_per_minute": 60, "tokens_max": 5},
    ]
    population = build_population(spec.population, spec.seed)
    path = write_launch(
        spec, population, run="run-1", directory=tmp_path, workers=None, quotas=quotas, parts_of_nodes=True
    )
    launched = load_launch(path)
    assert {group.name: group.parts for group in launched.groups} == {"p": 1, "r": 2}


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


def test_the_example_of_models_can_be_launched(tmp_path: Path) -> None:
    spec = load_spec(Path(__file__).resolve().parents[5] / "examples" / "guess_models.yaml")
    launched = launch(spec, tmp_path)
    assert {group.name: group.models() for group in launched.groups} == {
        "mixed": {"quick", "careful"},
        "cold": {"careful@0.2"},
        "rule": frozenset(),
    }
    assert sum(len(part) for part in plan_launch(launched)) == 60
    quotas = plan_quotas(spec, "run-1", over_nodes=False)
    assert [dict(quota.limits) for quota in quotas.list_all()] == [
        {"tokens_max": 1_000_000},
        {"requests_per_minute": 3000, "microdollars_max": 500_000},
    ]
