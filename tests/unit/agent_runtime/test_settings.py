"""Launch descriptions: what is accepted, and how a mistake is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.llm.settings import ENGINE_START_TIMEOUT_S
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
        ({"wake": []}, "nothing ever wakes its agents"),
        ({"first_wake_ns": 5}, "whoever is woken at a time lives by a clock"),
        ({"first_wake_ns": 2**63, "clock": "/"}, "groups.0.first_wake_ns"),
        ({"clock": "town"}, "groups.0.clock"),
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


FAR = (1e9, 1e300, 10**400, float("inf"), float("nan"))
BOUNDED = (
    *(("worker", name) for name in ("stop_timeout_s", "connect_timeout_s", "reconnect_timeout_s", "cursor_interval_s")),
    *(("worker", name) for name in ("lease_ttl_s", "linger_ms", "ops_waiting_max", "notices_waiting_max")),
    *(("group", name) for name in ("turn_timeout_s", "mailbox_max", "turns_in_flight_max", "parts")),
    *(("model", name) for name in ("in_flight_max", "queue_max", "timeout_s", "attempts_max", "retry_total_s")),
    *(("model", name) for name in ("repairs_max", "slots", "threads")),
)


@pytest.mark.parametrize(("where", "name"), BOUNDED)
def test_every_wait_and_every_crowd_is_bounded(where: str, name: str) -> None:
    for value in FAR:
        changed = {name: value}
        document = describe(**changed) if where == "group" else describe()
        if where == "worker":
            document["worker"] = changed
        elif where == "model":
            document["models"] = {"m": {"provider": "scripted", **changed}}
        with pytest.raises(LaunchError, match=name):
            parse_launch(document)


def test_numbers_fit_where_they_are_kept() -> None:
    for changed in ({"seed": 2**63}, {"from_revision": 2**63}, {"budget": {"tokens_max": 2**63}}):
        with pytest.raises(LaunchError):
            parse_launch({**describe(), **changed})
    with pytest.raises(LaunchError, match=r"mailbox_max"):
        parse_launch(describe(mailbox_max=65_535))


def test_an_unreadable_description_is_told_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"launch\.json: cannot be read: No such file"):
        load_launch(tmp_path / "launch.json")


def test_two_groups_of_one_name_are_refused() -> None:
    document = describe()
    document["groups"] *= 2
    with pytest.raises(LaunchError, match="same name"):
        parse_launch(document)


MODELS = {
    "hosted": {
        "provider": "openai",
        "endpoints": [
            {"base_url": "http://a/v1", "weight": 2, "api_key_file": "key"},
            {"base_url": "http://b/v1", "in_flight_max": 8},
        ],
        "requests_per_minute": 60,
        "tokens_per_minute": 30_000,
        "quota": "hosted",
        "price": {"prompt": 150_000, "completion": 600_000},
        "microdollars_max": 5_000_000,
        "two_call": True,
    },
    "again": {"provider": "replay", "replay_from": "old-run", "api_key_file": "key"},
}


def test_models_budgets_and_mixes_are_read_and_their_paths_count_from_the_description(tmp_path: Path) -> None:
    document = {**describe(model={"weights": {"hosted": 1, "again": 3}}), "models": MODELS}
    document["budget"] = {"tokens_max": 10, "quota": "run"}
    path = tmp_path / "launch.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    launch = load_launch(path)
    assert launch.models["again"].replay_from == tmp_path / "old-run"
    assert launch.models["again"].api_key_file == tmp_path / "key"
    assert [endpoint.api_key_file for endpoint in launch.models["hosted"].endpoints] == [tmp_path / "key", None]
    assert [endpoint.weight for endpoint in launch.models["hosted"].endpoints] == [2, 1]
    assert launch.groups[0].models() == {"hosted", "again"}
    assert launch.budget.tokens_max == 10
    assert parse_launch(document).model_copy() == parse_launch(json.loads(parse_launch(document).model_dump_json()))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"provider": "openai", "base_url": "http://a", "endpoints": [{"base_url": "http://b"}]}, "either base_url or"),
        ({"provider": "openai", "requests_per_minute": 0}, "requests_per_minute"),
        ({"provider": "scripted", "price": {"prompt": 0.5}}, "price.prompt"),
        ({"provider": "magic"}, "provider"),
    ],
)
def test_a_model_without_sense_is_told(model: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        parse_launch({**describe(), "models": {"m": model}})
    assert message in str(caught.value)


def test_groups_that_ask_engines_are_given_the_time_that_these_take_to_load() -> None:
    models = {"big": {"provider": "vllm", "vllm": {"engines": 3}}, "small": {"provider": "scripted"}}
    launch = parse_launch({**describe(model="big"), "models": models})
    assert launch.load_timeout_s(launch.groups[0]) == 3 * ENGINE_START_TIMEOUT_S
    mixed = parse_launch({**describe(model={"weights": {"big": 1, "small": 1}}), "models": models})
    assert mixed.load_timeout_s(mixed.groups[0]) == 3 * ENGINE_START_TIMEOUT_S
    small = parse_launch({**describe(model="small"), "models": models})
    assert small.load_timeout_s(small.groups[0]) == 0
