"""Quotas in a real world: registered once, shared by all who name them, told when they are others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
from ecumene.client import DeadlineExceededError, Environment, ErrorDetails, World, connect

from agent_runtime.gateways.limits import open_budget
from agent_runtime.gateways.opened_models import name_member
from agent_runtime.gateways.opening import open_model
from agent_runtime.gateways.quotas import WorldQuota
from agent_runtime.llm import Gateway, Message, ModelRequest, ModelSetupError
from agent_runtime.llm.admission import Load, QuotaRefusedError, QuotaUnavailableError, SharedBudget, SharedWindow, Want
from agent_runtime.llm.settings import RunBudget
from agent_runtime.model.errors import BudgetExceededError, LaunchError
from agent_runtime.settings import ModelSettings
from env_server.behaviours.quota import Quota
from env_server.testing.in_process import serve_in_process
from tests.unit.agent_runtime.llm.providers_of_tests import Answering


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with serve_in_process(Quota) as address, connect(address, create=True) as world:
        yield world


def request(agent: str) -> ModelRequest:
    return ModelRequest(agent, 1, 0, "m", (Message("user", "Pick a number."),), max_tokens=20)


async def test_two_workers_share_one_limit(world: World) -> None:
    limits = {"requests_per_minute": 30}
    quotas = [await WorldQuota.open(world, "gpt", limits, f"worker-{number}") for number in range(2)]
    gateways = [
        Gateway(Answering(), limits=[SharedWindow("m", quota, requests_per_minute=30, tokens_per_minute=None)])
        for quota in quotas
    ]
    asks = [asyncio.create_task(gateways[i % 2].ask(request(f"a{i}")), name=f"ask-{i}") for i in range(60)]
    async with asyncio.timeout(60):
        while sum(ask.done() for ask in asks) < 30:  # noqa: ASYNC110 - only a look tells
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.5)  # in which nobody else is served
    assert sum(ask.done() for ask in asks) == 30
    for ask in asks:
        ask.cancel()
    await asyncio.gather(*asks, return_exceptions=True)
    for gateway in gateways:
        await gateway.aclose()


async def test_a_quota_with_other_limits_is_told(world: World) -> None:
    await WorldQuota.open(world, "gpt", {"requests_per_minute": 30}, "a")
    with pytest.raises(LaunchError, match="quota gpt"):
        await WorldQuota.open(world, "gpt", {"requests_per_minute": 60}, "b")
    await world.environment("/runtime/quotas/room").register()
    with pytest.raises(LaunchError, match="quota room"):
        await WorldQuota.open(world, "room", {}, "b")


async def test_budgets_of_a_launch_are_kept_by_the_world(world: World) -> None:
    settings = ModelSettings(provider="scripted", tokens_max=2_000, quota="gpt", max_tokens=20)
    run = RunBudget(tokens_max=1_000, quota="run")
    spent = 0
    for number in range(2):
        run_budget = await open_budget(run, share=0.5, world=world, member=f"w{number}")
        assert isinstance(run_budget, SharedBudget)
        model = await open_model(
            "m", settings, seed=0, share=0.5, world=world, member=f"w{number}", run_budget=run_budget
        )
        results = await asyncio.gather(
            *(model.gateway.ask(request(f"a{number}-{i}")) for i in range(5 + 400 * number)), return_exceptions=True
        )
        assert any(isinstance(result, BudgetExceededError) for result in results) == (number == 1) == model.is_exhausted
        statistics = model.gateway.statistics()
        spent += statistics.prompt_tokens + statistics.completion_tokens
        await model.gateway.aclose()
    assert 900 < spent <= 1_000
    for name in ("gpt", "run"):
        kept = await world.environment(f"/runtime/quotas/{name}").value("budget")
        assert kept == {"tokens": spent, "microdollars": 0}


async def test_a_quota_that_is_gone_has_refused(world: World) -> None:
    quota = await WorldQuota.open(world, "gpt", {"requests_per_minute": 30}, "a")
    await world.environment("/runtime/quotas/gpt").unregister()
    with pytest.raises(QuotaRefusedError):
        await quota.take(Want(1, 0, 0), {})


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        (DeadlineExceededError(ErrorDetails(reason="DEADLINE_EXCEEDED")), QuotaUnavailableError),
        (None, QuotaRefusedError),
        ({}, QuotaRefusedError),
        ({"requests": 1, "tokens": "many", "share": 1, "ttl_ms": "soon"}, QuotaRefusedError),
        ([], QuotaRefusedError),
    ],
)
async def test_what_no_quota_answers_is_a_refusal_and_no_answer_is_none(told: Any, kind: type[Exception]) -> None:
    class Answering:
        async def invoke(self, operation: str, **arguments: Any) -> Any:
            if isinstance(told, Exception):
                raise told
            return told

    quota = WorldQuota(cast(Environment, Answering()), "a", {})
    with pytest.raises(kind):
        await quota.take(Want(1, 0, 0), {})
    with pytest.raises(kind):
        await quota.draw(1, 0, Load())


async def test_a_limit_too_small_to_be_shared_out_asks_for_a_quota() -> None:
    settings = ModelSettings(provider="scripted", requests_per_minute=3)
    with pytest.raises(LaunchError, match="share them by a quota"):
        await open_model("m", settings, seed=0, share=0.25)
    with pytest.raises(LaunchError, match="no world"):
        await open_model("m", settings.model_copy(update={"quota": "gpt"}), seed=0, share=0.25)


async def test_a_quota_that_is_there_gives_its_own_limits_to_whoever_gives_none(world: World) -> None:
    run = RunBudget(quota="run", when_spent="hold")
    with pytest.raises(LaunchError, match="quota run: is not in the world"):
        await open_budget(run, share=1.0, world=world, member="w")
    await WorldQuota.open(world, "run", {"tokens_max": 1_000}, "conductor")
    spent = 0
    for tokens_max in (1_000, 2_000):
        # Raised between two lives of a run: what was drawn before stays drawn.
        await world.environment("/runtime/quotas/run").change(merge_config={"tokens_max": tokens_max})
        budget = await open_budget(run, share=1.0, world=world, member="w")
        assert isinstance(budget, SharedBudget)
        gateway = Gateway(Answering(usage=(15, 20)), limits=[budget])
        asks = [asyncio.create_task(gateway.ask(request(f"a{i}")), name=f"ask {i}") for i in range(60)]
        async with asyncio.timeout(20):
            while not budget.is_exhausted:  # noqa: ASYNC110 - what is waited for has no event of its own
                await asyncio.sleep(0.001)
        for ask in asks:
            ask.cancel()
        ends = await asyncio.gather(*asks, return_exceptions=True)
        assert not any(isinstance(end, BudgetExceededError) for end in ends)
        await gateway.aclose()
        spent += budget.spent.tokens
        assert tokens_max - 200 < spent <= tokens_max


@pytest.mark.parametrize("limits", [{"requests_per_minute": 30}, {"tokens_max": 5_000}])
async def test_a_quota_that_is_gone_or_is_no_quota_is_told_at_once_and_nobody_waits(
    world: World, limits: dict[str, int]
) -> None:
    settings = ModelSettings(provider="scripted", quota="gpt", max_tokens=20, **limits)  # type: ignore[arg-type]
    for instead in (None, "quota"):
        model = await open_model("m", settings, seed=0, share=1.0, world=world, member="w")
        place = world.environment("/runtime/quotas/gpt")
        await place.unregister()
        if instead is not None:
            await place.register(kind="quota", config={"requests_per_minute": 1})
            with pytest.raises(LaunchError):
                await open_model("m", settings, seed=0, share=1.0, world=world, member="w")
            await place.unregister()
        async with asyncio.timeout(5):
            for number in range(3):
                with pytest.raises(ModelSetupError, match="quota"):
                    await model.gateway.ask(request(f"a{number}"))
        await model.gateway.aclose()


async def test_a_budget_too_small_for_one_call_is_left_to_smaller_ones(world: World) -> None:
    quota = await WorldQuota.open(world, "gpt", {"tokens_max": 200}, "w")
    gateway = Gateway(Answering(), limits=[SharedBudget("m", quota, tokens_max=200, microdollars_max=None)])
    with pytest.raises(BudgetExceededError):
        await gateway.ask(replace(request("large"), max_tokens=1_000))
    assert (await gateway.ask(request("small"))).text
    await gateway.aclose()


def test_a_members_name_is_never_too_long_for_a_quota() -> None:
    names = {name_member(f"{'r' * length}.{'n' * 40}.worker-{number:02d}") for length in (8, 80) for number in range(3)}
    assert len(names) == 6 and max(map(len, names)) == 128
