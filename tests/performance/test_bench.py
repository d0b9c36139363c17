"""The benchmarks run, and print what the design promises; no figure is judged here, machines differ."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
        assert math.isfinite(result["value"]) and result["value"] > 0
        assert result["samples"]
    return document


@pytest.mark.timeout(300)
def test_env_prints_all_figures_each_beside_its_limit() -> None:
    results = {result["name"]: result for result in run_bench("env")["results"]}
    assert results.keys() >= ENV_NAMES | HELD_NAMES
    assert all(results[name]["limit"] for name in ENV_NAMES | HELD_NAMES)
    assert all(results[name]["details"]["server_us_op"] >= 0 for name in ENV_NAMES)


@pytest.mark.timeout(300)
def test_round_loses_no_agent_and_stands_beside_its_limit() -> None:
    results = {result["name"]: result for result in run_bench("round", "--agents", "300")["results"]}
    assert results.keys() >= {"wall_s", "setup_s", "peak_rss_mib", "agents_ok"}
    assert results["agents_ok"]["value"] == 300
    assert results["wall_s"]["value"] >= 1.0, "an agent thinks for a second"
    assert results["wall_s"]["limit"] >= 1.0
    assert {"server_cpu_s", "runtime_cpu_s"} <= results["wall_s"]["details"].keys()
