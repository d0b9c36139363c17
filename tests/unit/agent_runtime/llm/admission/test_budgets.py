"""Budgets: never more than there is, and whoever may still fit waits for those who are out."""

from __future__ import annotations

import asyncio
import random

import pytest

from agent_runtime.llm import Gateway, Message, ModelRequest
from agent_runtime.llm.admission import Budget, Load
from agent_runtime.llm.spending import Price
from agent_runtime.model.errors import BudgetExceededError
from tests.simulated_time import now_s, simulated
from tests.unit.agent_runtime.llm.providers_of_tests import Answering


def request(agent: str, max_tokens: int = 50) -> ModelRequest:
    return ModelRequest(agent, 1, 0, "m", (Message("user", "Pick a number."),), max_tokens=max_tokens)


@simulated
async def test_a_crowd_spends_a_budget_to_the_end_and_not_beyond() -> None:
    budget = Budget("m", tokens_max=2_000)
    provider = Answering(delay_s=1.0, usage=(15, 20))
    gateway = Gateway(provider, in_flight_max=40, limits=[budget], clock=now_s)
    results = await asyncio.gather(*(gateway.ask(request(f"a{i}")) for i in range(200)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, BudgetExceededError)]
    assert len(refused) + provider.calls == 200
    assert 2_000 - 75 < budget.spent.tokens == 35 * provider.calls <= 2_000
    assert budget.is_exhausted
    assert gateway.statistics().failures == {"budget": len(refused)}
    assert "tokens are spent" in str(refused[0])
    await gateway.aclose()


@simulated
async def test_money_is_a_budget_too_and_one_budget_holds_for_several_models(seed: int) -> None:
    budget = Budget("run", microdollars_max=10_000)
    price = Price(prompt=1_000_000, completion=3_000_000)
    chance = random.Random(seed)
    gateways = [
        Gateway(Answering(delay_s=0.5, usage=(20, 30)), in_flight_max=8, limits=[budget], price=price, clock=now_s)
        for _ in range(3)
    ]
    asks = [chance.choice(gateways).ask(request(f"a{i}")) for i in range(300)]
    results = await asyncio.gather(*asks, return_exceptions=True)
    assert all(isinstance(result, BudgetExceededError) or result.microdollars == 110 for result in results)  # type: ignore[union-attr]
    spent = sum(gateway.statistics().microdollars for gateway in gateways)
    assert spent == budget.spent.microdollars
    assert 10_000 - 200 < spent <= 10_000
    for gateway in gateways:
        await gateway.aclose()


def test_a_run_that_goes_on_has_spent_what_it_had_spent() -> None:
    budget = Budget("m", tokens_max=100, spent=Load(60))
    assert budget.wait_s(Load(40), 0.0) == 0.0
    with pytest.raises(BudgetExceededError) as caught:
        budget.wait_s(Load(41), 0.0)
    assert (caught.value.spent, caught.value.maximum, caught.value.unit) == (60, 100, "tokens")


@simulated
async def test_a_call_of_which_nothing_came_back_counts_its_prompt() -> None:
    budget = Budget("m", tokens_max=10_000)
    provider = Answering(delay_s=100.0)
    gateway = Gateway(provider, limits=[budget], timeout_s=1.0, attempts_max=2, clock=now_s)
    with pytest.raises(Exception, match="no answer within"):
        await gateway.ask(request("a"))
    assert 20 <= budget.spent.tokens <= 60
    await gateway.aclose()


@simulated
async def test_a_budget_that_holds_lets_nothing_fail_and_tells_why() -> None:
    budget = Budget("run", tokens_max=500, holds=True)
    provider = Answering(delay_s=1.0, usage=(15, 20))
    gateway = Gateway(provider, in_flight_max=4, limits=[budget], clock=now_s)
    asks = [asyncio.create_task(gateway.ask(request(f"a{i}")), name=f"ask {i}") for i in range(40)]
    done, pending = await asyncio.wait(asks, timeout=60)
    assert 500 - 75 < budget.spent.tokens == 35 * len(done) <= 500
    assert all(ask.exception() is None for ask in done)
    assert gateway.statistics().in_flight == 0
    assert budget.refusal is not None
    assert (budget.refusal.whose, budget.refusal.unit, budget.refusal.maximum) == ("run", "tokens", 500)
    for ask in pending:
        ask.cancel()
    await asyncio.wait(pending)
    assert all(ask.cancelled() for ask in pending)
    await gateway.aclose()
