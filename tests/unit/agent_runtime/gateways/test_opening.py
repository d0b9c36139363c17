"""Models of a launch, opened by their settings."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from ecumene.client import World

from agent_runtime.gateways.opened_models import OpenedModels
from agent_runtime.gateways.opening import open_model
from agent_runtime.llm import Message, ModelRequest, ModelSetupError
from agent_runtime.llm.admission import Load
from agent_runtime.llm.providers.local import MODEL_NAME
from agent_runtime.llm.providers.local_weights import find_weights
from agent_runtime.model.errors import BudgetExceededError, LaunchError
from agent_runtime.model.parts import Part
from agent_runtime.settings import ModelSettings
from tests.model_endpoint import ModelEndpoint, Reply, Status
from tests.unit.agent_runtime.stage import PLAYERS, make_launch, set_stage


async def test_agents_ask_an_openai_endpoint_and_its_failures_are_their_statuses(tmp_path: Path) -> None:
    async with ModelEndpoint(Reply('{"number": 21.5}'), api_key="key-of-the-test") as endpoint:
        (tmp_path / "key").write_text("key-of-the-test\n", encoding="utf-8")
        model = {"provider": "openai", "base_url": endpoint.base_url, "model": "m", "attempts_max": 1}
        models = {"m": {**model, "api_key_file": str(tmp_path / "key"), "seed_answers": True, "temperature": 0.5}}
        endpoint.enqueue(Reply("", finish_reason="content_filter"), Status(503), Reply('{"number": 2', "length"))
        models["m"]["repairs_max"] = 0
        launch = make_launch(tmp_path, f"{PLAYERS}:Asker", ["a"], models=models)
        async with set_stage(tmp_path, launch) as stage:
            for number in (1, 2, 3, 4):
                stage.world.open_round(number)
                await stage.wait_turns(number)
    turns = sorted(stage.read("turns"), key=lambda row: row["turn"])
    assert [row["status"] for row in turns] == ["refused", "error", "truncated", "ok"]
    assert stage.world.reports() == {"a": 21.5}
    seeds = {request["seed"] for request in endpoint.requests}
    assert len(seeds) == len(endpoint.requests) == 4
    assert all(request["temperature"] == 0.5 for request in endpoint.requests)
    assert "key-of-the-test" not in str(stage.read("calls")) + str(turns)


async def test_a_worker_gets_its_share_of_a_nodes_budget() -> None:
    settings = ModelSettings(provider="scripted", in_flight_max=8, queue_max=100, tokens_max=1000)
    model = await open_model("m", settings, seed=0, share=0.25)
    (budget,) = model.budgets
    assert budget.wait_s(Load(tokens=250), 0.0) == 0.0
    with pytest.raises(BudgetExceededError, match="0 of 250 tokens"):
        budget.wait_s(Load(tokens=251), 0.0)
    await model.gateway.aclose()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"provider": "openai"}, LaunchError),
        ({"provider": "openai", "base_url": "http://h/v1", "api_key_env": "ECUMENE_TEST_NO_SUCH_KEY"}, ModelSetupError),
        ({"provider": "scripted", "answers": "no.such:function"}, LaunchError),
        ({"provider": "scripted", "answers": "math:pi"}, LaunchError),
    ],
)
async def test_a_model_that_cannot_be_opened_says_what_is_missing(
    settings: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        await open_model("m", ModelSettings(**settings), seed=0, share=1.0)
    assert "\n" not in str(caught.value)


async def test_agents_ask_the_local_model(tmp_path: Path, missing_toolchain: Any) -> None:
    try:
        find_weights()
    except ModelSetupError as error:
        missing_toolchain(str(error))
    models = {"m": {"provider": "local", "model": MODEL_NAME, "slots": 2, "context_tokens": 1024}}
    async with set_stage(tmp_path, make_launch(tmp_path, "prompted-player", ["a"], models=models)) as stage:
        stage.world.open_round()
        await stage.wait_turns(1, timeout_s=100)
    (turn,) = stage.read("turns")
    assert turn["attempts"] >= 1
    assert "a" in stage.world.reports()


async def test_a_worker_that_hosts_one_part_after_the_other_has_the_bounds_of_all_of_them(tmp_path: Path) -> None:
    """As a daemon's worker does: the first part alone would leave it a quarter of what it may ask."""
    model: dict[str, Any] = {"provider": "scripted", "in_flight_max": 40, "queue_max": 100, "timeout_s": 600.0}
    model |= {"requests_per_minute": 4_000, "latency": {"kind": "fixed", "ms": 1e7}}
    launch = make_launch(tmp_path, f"{PLAYERS}:Asker", [f"a{n}" for n in range(8)], models={"m": model})
    parts = [Part(group="g", number=number, first=2 * number, end=2 * number + 2) for number in range(4)]
    models = OpenedModels(launch, cast(World, None), 0)
    bounds = []
    for part in (*parts, parts[0]):
        await models.open([part])
        gateway = models.choose(launch.groups[0], 0).find("a0", {}).gateway  # type: ignore[union-attr]
        asks = [asyncio.create_task(gateway.ask(ask(f"a{n}")), name="ask") for n in range(500)]
        await asyncio.sleep(0)
        bounds.append((gateway._pool.endpoints[0].in_flight_max, gateway.statistics().held_back))
        for one in asks:
            one.cancel()
        await asyncio.gather(*asks, return_exceptions=True)
    assert bounds == [(10, 465), (20, 430), (30, 395), (40, 360), (40, 360)]
    await models.aclose()


def ask(agent: str) -> ModelRequest:
    return ModelRequest(agent, 1, 0, "scripted", (Message("user", "Pick a number."),), max_tokens=20)
