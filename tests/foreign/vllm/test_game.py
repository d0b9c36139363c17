"""The guess game with agents that ask vllm: over its own server, and by an engine in the worker."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.dataset as ds
import pytest
from ecumene.sim import RunOptions, RunOutcome, parse_spec, run
from ecumene.sim.runs import launch as launching
from ecumene.sim.runs import life, stage
from ecumene.sim.runs.demo import make_llm_demo_spec

from tests.foreign.vllm.builds import Build, find_build
from tests.foreign.vllm.engine_processes import find_engines
from tests.foreign.vllm.model_server import ModelServer
from tests.foreign.vllm.models import SMOLLM2
from tests.journey.test_run import Silent

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

AGENTS, ROUNDS = 24, 2
STATUSES = {"ok", "fallback", "parse_error", "truncated", "refused", "timeout", "budget", "cancelled", "error"}


@pytest.fixture(scope="module")
def build(missing_toolchain: Callable[[str], NoReturn]) -> Build:
    return find_build(missing_toolchain)


async def play(directory: Path, model: dict[str, Any]) -> RunOutcome:
    """The demonstration's game, with another model in place of its own."""
    document = make_llm_demo_spec(agents=AGENTS, rounds=ROUNDS, seed=1, directory=directory).to_document()
    document["model"] = {**document["model"], **model}
    document["game"]["deadline_s"] = 3000
    return await run(parse_spec(document), observer=Silent(), options=RunOptions())


def check(outcome: RunOutcome) -> None:
    """Every turn ended once, most of them in a number, and every call was counted by the model."""
    assert sum(outcome.report.statuses.values()) == AGENTS * ROUNDS
    assert outcome.report.statuses.keys() <= STATUSES
    assert outcome.report.statuses["ok"] > AGENTS * ROUNDS / 2
    assert outcome.report.statuses.get("error", 0) == 0
    calls = ds.dataset(outcome.directory / "calls").to_table().to_pylist()
    assert len(calls) == AGENTS * ROUNDS
    assert all(call["prompt_tokens"] > 0 and call["completion_tokens"] > 0 for call in calls)
    assert all(call["mode"] == "json_schema" for call in calls)


async def test_agents_ask_vllms_server(build: Build, tmp_path: Path) -> None:
    with ModelServer(build, SMOLLM2, tmp_path / "vllm.log") as server:
        model = {"provider": "openai", "name": SMOLLM2, "endpoint": server.base_url}
        check(await play(tmp_path, model))


async def test_agents_ask_an_engine_in_their_worker(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A spec names no engines; a launch description does."""

    def write_launch(*given: Any, **named: Any) -> Path:
        path = launching.write_launch(*given, **named)
        launch = json.loads(path.read_text())
        for described in launch["models"].values():
            del described["base_url"], described["api_key_env"], described["api_key_file"]
            described |= {"provider": "vllm", "model": build.model(SMOLLM2)}
            described["vllm"] = {"gpus": build.gpus, "arguments": dict(build.arguments)}
        path.write_text(json.dumps(launch))
        return path

    monkeypatch.setattr(life, "write_launch", write_launch)
    # An engine loads before the runtime is ready.
    monkeypatch.setattr(stage, "RUNTIME_START_TIMEOUT_S", 1200.0)
    before = find_engines()
    check(await play(tmp_path, {"provider": "openai", "name": SMOLLM2, "endpoint": "http://127.0.0.1:9/v1"}))
    assert find_engines() == before
