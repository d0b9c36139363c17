"""The benchmarks run, and print what the design promises; no figure is judged here, machines differ."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from agent_runtime.llm import ModelSetupError
from agent_runtime.llm.providers.local_weights import find_weights
from tests.model_endpoint import ModelEndpoint, Reply

ROOT = Path(__file__).resolve().parents[2]
FIELDS = {"name", "value", "unit", "limit", "goal", "peers", "samples"}
MACHINE = {"cpu", "cores", "python", "grpcio", "protobuf", "lmdb", "loop", "date"}
ENV_NAMES = {"ops_1k_keys", "ops_1m_keys", "ops_1m_random", "ops_unary", "unary_p50_ms", "ops_one_key"}
HELD_NAMES = {f"ops_held_{count}" for count in (1, 8, 64, 512)}


def run_bench(*arguments: str) -> dict[str, Any]:
    """The document of a quick benchmark, whose form is checked."""
    command = [sys.executable, "-m", "ecumene.cli", "bench", *arguments, "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["bench"] == arguments[0]
    assert document["machine"].keys() >= MACHINE
    assert str(ROOT) not in done.stdout
    for result in document["results"]:
        assert result.keys() >= FIELDS
        assert math.isfinite(result["value"]) and (result["value"] > 0 or result["name"] == "left_over")
        assert result["samples"]
    return document


@pytest.mark.long
@pytest.mark.timeout(300)
def test_env_prints_all_figures_each_beside_its_limit() -> None:
    results = {result["name"]: result for result in run_bench("env", "--no-peers")["results"]}
    assert results.keys() >= ENV_NAMES | HELD_NAMES | {"held_key_p99_ratio", "saving_p99_ratio"}
    assert all(results[name]["limit"] for name in ENV_NAMES | HELD_NAMES)
    assert all(results[name]["details"]["server_us_op"] >= 0 for name in ENV_NAMES)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_watch_loses_no_event_and_tells_what_watches_cost() -> None:
    results = {result["name"]: result for result in run_bench("watch")["results"]}
    names = {"deliveries", "deliveries_rows", "publish_us", "publish_us_10k_watches", "watch_kib", "first_event_ms"}
    assert results.keys() >= names
    assert results["deliveries"]["limit"]
    assert results["publish_us_10k_watches"]["limit"] == results["publish_us"]["value"]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_message_is_heard_by_one_and_by_many() -> None:
    results = {result["name"]: result for result in run_bench("message", "--no-peers")["results"]}
    ways = ("1_1", "1_1k", "1_1k_watches")
    assert results.keys() >= {f"{figure}_{way}" for way in ways for figure in ("messages", "p99_ms")}


def test_a_life_ends_without_a_trace() -> None:
    results = {result["name"]: result for result in run_bench("lifecycle", "--agents", "300")["results"]}
    assert {name: result["value"] for name, result in results.items() if name in ("left_over", "agents")} == {
        "left_over": 0,
        "agents": 300,
    }
    assert results["cleanup_s"]["value"] > 0 and results["launch_s"]["value"] > 0
    assert results["launch_s"]["details"]["round_s"] > 0


@pytest.mark.long
@pytest.mark.timeout(300)
def test_restart_brings_every_entry_back() -> None:
    results = {result["name"]: result for result in run_bench("restart")["results"]}
    assert results.keys() >= {"restart_s", "grow_ratio"}
    assert results["grow_ratio"]["details"]["many"] > results["grow_ratio"]["details"]["few"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_peers_are_measured_or_named_with_the_reason() -> None:
    ops = {result["name"]: result for result in run_bench("env")["results"]}["ops_1k_keys"]
    assert ops["peers"].keys() | ops["absent_peers"].keys() == {"etcd", "redis_py", "redis_hiredis"}
    messages = {result["name"]: result for result in run_bench("message")["results"]}["messages_1_1"]
    assert messages["peers"].keys() | messages["absent_peers"].keys() == {"agentscope_local", "agentscope_rpc"}
    rates = {result["name"]: result for result in run_bench("round", "--agents", "300")["results"]}["agents_s"]
    names = {"asyncio", *(f"agentscope_{mode}_{size}" for mode in ("rpc", "threads") for size in ("1k", "5k"))}
    assert rates["peers"].keys() | rates["absent_peers"].keys() == names
    assert all(figure > 0 for result in (ops, messages, rates) for figure in result["peers"].values())


@pytest.mark.timeout(300)
def test_round_loses_no_agent_and_stands_beside_its_limit() -> None:
    document = run_bench("round", "--agents", "300", "--no-peers")
    results = {result["name"]: result for result in document["results"]}
    assert results.keys() >= {"wall_s", "setup_s", "peak_rss_mib", "agents_ok", "agents_s"}
    assert results["agents_ok"]["value"] == 300
    assert results["wall_s"]["value"] >= 1.0, "an agent thinks for a second"
    assert results["wall_s"]["limit"] >= 1.0
    assert {"server_cpu_s", "runtime_cpu_s"} <= results["wall_s"]["details"].keys()
    assert all(one["source"] and one["setting"] for one in document["reported"])


@pytest.mark.timeout(300)
def test_a_town_lives_through_its_days() -> None:
    results = {result["name"]: result for result in run_bench("town")["results"]}
    assert results.keys() == {"year_s", "resident_day_us"}
    assert results["year_s"]["details"]["jumps"] >= results["year_s"]["details"]["days"] == 7
    assert 1 < results["year_s"]["details"]["moves_a_resident_day"] < 6


@pytest.mark.timeout(300)
def test_space_tells_as_many_events_as_there_are_crossings() -> None:
    results = {result["name"]: result for result in run_bench("space", "--no-peers")["results"]}
    figures = {
        *(f"move{kind}_us" for kind in ("", "_walk", "_region", "_plain")),
        "knn_us",
        "radius_us",
        "neighbours_us",
        "knn_table_us",
    }
    assert results.keys() >= figures | {f"{name}_grid" for name in figures} | {"flock_200_ms", "town_16x16_ms"}
    assert all(results[name]["peers"]["bare_cells"] >= 0 for name in figures)
    assert results["move_us"]["goal"] == {"at_most": 100} and results["knn_us"]["goal"] == {"at_most": 50}
    assert results["move_us"]["details"]["events_a_move"] > results["move_region_us"]["details"]["events_a_move"] == 1
    assert results["move_plain_us"]["details"]["events_a_move"] == 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_models_come_to_the_same_end_as_in_mesa() -> None:
    results = {result["name"]: result for result in run_bench("space")["results"]}
    for name in ("flock_200", "town_16x16"):
        assert results[f"{name}_ms"]["peers"].get("mesa") or results[f"{name}_ms"]["absent_peers"]["mesa"]


@pytest.mark.timeout(300)
def test_clock_fires_all_timers_and_stands_beside_a_bare_heap() -> None:
    results = {result["name"]: result for result in run_bench("clock")["results"]}
    names = {"fire_us", "late_ms", "timer_bytes", "jumps_1", "jumps_5", "clock_ratio_manual", "clock_ratio_realtime"}
    assert results.keys() == names
    assert all(results[name]["peers"]["bare_heap"] > 0 for name in ("fire_us", "timer_bytes"))
    assert "asyncio_alarms_p50_ms" in results["late_ms"]["details"]


@pytest.mark.timeout(300)
def test_llm_asks_the_same_through_the_gateway_and_bare() -> None:
    results = {result["name"]: result for result in run_bench("llm", "--no-server")["results"]}
    assert results.keys() == {"gateway_ratio", "gateway_calls"}
    assert results["gateway_ratio"]["goal"] == {"at_least": 0.9}
    assert results["gateway_calls"]["limit"]
    assert results["gateway_calls"]["details"].keys() >= {"gateway_us_call", "bare_us_call", "endpoint_us_call"}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_llm_counts_the_tokens_of_the_packaged_model(missing_toolchain: Callable[[str], NoReturn]) -> None:
    try:
        find_weights()
    except ModelSetupError as error:
        missing_toolchain(str(error))
    results = {result["name"]: result for result in run_bench("llm")["results"]}
    assert results["server_ratio"]["goal"] == {"at_least": 0.95}
    assert results["server_tokens"]["limit"]


@pytest.mark.timeout(300)
def test_llm_measures_any_server_that_it_is_given() -> None:
    async def serve() -> dict[str, Any]:
        async with ModelEndpoint(Reply("Twenty boats.", prompt_tokens=9, completion_tokens=3)) as endpoint:
            arguments = ("llm", "--endpoint", endpoint.base_url, "--model", "given", "--at-a-time", "3")
            document = await asyncio.to_thread(run_bench, *arguments)
            assert {body["model"] for body in endpoint.requests} == {"given"}
            assert endpoint.in_flight_peak <= 3
            assert endpoint.complaints == []
        return document

    results = {result["name"]: result for result in asyncio.run(serve())["results"]}
    assert results.keys() == {"server_ratio", "server_tokens"}
