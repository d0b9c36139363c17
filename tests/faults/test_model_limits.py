"""Endpoints that sell by the minute, are busy, hang or die: no limit is broken, no question is lost."""

from __future__ import annotations

import asyncio
import random
from email.utils import formatdate
from typing import Any

import pytest

from agent_runtime.llm import Message, ModelBrokenError, ModelError, ModelRequest
from agent_runtime.llm.admission import (
    Budget,
    RateWindow,
)
from agent_runtime.llm.endpoints import BreakerState
from agent_runtime.model.errors import BudgetExceededError
from tests.faults.limited_models import GOOD, Guess, ask_as, check_use, open_gateway, serve
from tests.model_endpoint import Die, Hang, Reply, Status, count_most
from tests.simulated_time import now_s, simulated


@pytest.mark.parametrize(
    ("requests", "tokens", "words"),
    [(10, 30_000, 3), (500, 30_000, 900), (60, 30_000, 400)],
    ids=["RPM", "TPM", "both"],
)
@simulated
async def test_a_small_plan_is_used_and_never_exceeded(requests: int, tokens: int, words: int, seed: int) -> None:
    """Ten requests and 30,000 tokens a minute are enough to live on."""
    chance = random.Random(seed)

    def reply(body: dict[str, Any]) -> Reply:
        return Reply('{"number": 33}', delay_s=chance.uniform(0.1, 1.5), completion_tokens=chance.randint(5, 50))

    async with serve(reply, requests_per_minute=requests, tokens_per_minute=tokens) as endpoint:
        window = RateWindow("m", requests_per_minute=requests, tokens_per_minute=tokens)
        gateway = open_gateway(endpoint, limits=[window], queue_max=10_000)
        minutes = 10
        count = round(min(requests, tokens / (words * 1.05 + 28)) * minutes)
        asks = [asyncio.create_task(gateway.ask(ask_as(f"a{i}", words)), name=f"ask-{i}") for i in range(2 * count)]
        await asyncio.sleep(60.0 * minutes)
        check_use(endpoint, minutes, requests=requests, tokens=tokens)
        for ask in asks:
            ask.cancel()
        results = await asyncio.gather(*asks, return_exceptions=True)
        assert not any(isinstance(result, ModelError) for result in results)
        assert gateway.statistics().retries == 0
        await gateway.aclose()


@pytest.mark.parametrize("form", ["seconds", "date"])
@simulated
async def test_a_busy_endpoint_costs_no_turn_in_fifty_rounds(form: str, seed: int) -> None:
    """429 with Retry-After of 3 s, at any moment and in bursts: honoured by everybody, and every turn is answered."""
    chance = random.Random(seed)
    headers = {"Retry-After": "3"}
    if form == "date":
        headers = {
            "Date": formatdate(1_700_000_000, usegmt=True),
            "Retry-After": formatdate(1_700_000_003, usegmt=True),
        }
    busy_since: list[float] = []
    early: list[float] = []

    def play(body: dict[str, Any]) -> Any:
        now = now_s()
        if busy_since and now - busy_since[-1] < 0.001:
            return Status(429, headers=headers)
        if busy_since and now - busy_since[-1] < 2.999:
            early.append(now - busy_since[-1])
        if chance.random() < 0.02:
            busy_since.append(now)
            return Status(429, headers=headers)
        return Reply('{"number": 33}', delay_s=chance.uniform(0.1, 0.5))

    async with serve(play) as endpoint:
        gateway = open_gateway(endpoint, in_flight_max=8)
        for number in range(50):
            answers = await asyncio.gather(*(gateway.ask(ask_as(f"a{i}-{number}")) for i in range(40)))
            assert len(answers) == 40
        assert len(busy_since) >= 5
        assert early == [], "somebody came before the time"
        assert gateway.statistics().failures == {}
        await gateway.aclose()


@simulated
async def test_an_endpoint_that_is_always_full_is_tried_with_fewer_calls_until_all_are_served() -> None:
    """Ten requests a minute, and nobody told us."""
    async with serve(GOOD, requests_per_minute=10) as endpoint:
        gateway = open_gateway(endpoint, retry_total_s=3600, attempts_max=20)
        answers = await asyncio.gather(*(gateway.ask(ask_as(f"a{i}")) for i in range(60)))
        assert len(answers) == 60
        assert count_most([(at, 0) for at, tokens in endpoint.arrivals if tokens])[0] <= 2 * 60
        assert endpoint.over_limit < 120
        await gateway.aclose()


@simulated
async def test_a_tenth_that_never_answers_does_not_slow_down_the_others(seed: int) -> None:
    chance = random.Random(seed)
    hung: set[str] = set()

    def play(body: dict[str, Any]) -> Any:
        return Hang() if body["messages"][0]["content"] in hung else Reply('{"number": 33}', delay_s=0.1)

    async with serve(play) as endpoint:
        gateway = open_gateway(endpoint, timeout_s=10, attempts_max=2, in_flight_max=40, retry_total_s=60)
        ended_s: dict[str, float] = {}

        async def ask(agent: str) -> str:
            request = ModelRequest(agent, 1, 0, "m", (Message("user", agent),), Guess, max_tokens=50)
            try:
                await gateway.ask(request)
            except ModelError as error:
                return error.status
            finally:
                ended_s[agent] = now_s()
            return "ok"

        agents = [f"agent {number}" for number in range(200)]
        hung.update(chance.sample(agents, 20))
        start_s = now_s()
        statuses = dict(zip(agents, await asyncio.gather(*map(ask, agents)), strict=True))
        assert {agent for agent, status in statuses.items() if status == "timeout"} == hung
        assert all(status == "ok" for agent, status in statuses.items() if agent not in hung)
        slowest = max(ended_s[agent] - start_s for agent in agents if agent not in hung)
        assert slowest < 3, "half of the places were always free"
        assert 20 <= endpoint.given_up <= 40
        await gateway.aclose()


@simulated
async def test_an_engine_that_dies_and_comes_back_loses_no_question() -> None:
    async with serve(Reply('{"number": 33}', delay_s=0.5)) as endpoint:
        gateway = open_gateway(endpoint, in_flight_max=8)
        endpoint.enqueue(*[GOOD] * 20, Die())
        asks = [asyncio.create_task(gateway.ask(ask_as(f"a{i}")), name=f"ask-{i}") for i in range(100)]
        await asyncio.sleep(30)
        sent = len(endpoint.arrivals)
        assert gateway.statistics().endpoints[0].breaker is not BreakerState.CLOSED
        await asyncio.sleep(10)
        assert len(endpoint.arrivals) - sent <= 3, "a dead engine is left alone"
        endpoint.revive()
        answers = await asyncio.gather(*asks)
        assert len(answers) == 100
        await gateway.aclose()


@simulated
async def test_with_two_endpoints_one_may_die_at_any_time() -> None:
    async with serve(Reply('{"number": 33}', delay_s=0.2)) as lasting, serve(Die()) as dying:
        gateway = open_gateway(lasting, dying, in_flight_max=8)
        answers = await asyncio.gather(*(gateway.ask(ask_as(f"a{i}")) for i in range(200)))
        assert len(answers) == 200
        assert len(lasting.requests) == 200
        await gateway.aclose()


@simulated
async def test_a_model_that_is_gone_for_good_ends_every_question_in_time() -> None:
    async with serve(Die()) as endpoint:
        gateway = open_gateway(endpoint, in_flight_max=4, retry_total_s=60, attempts_max=5)
        start_s = now_s()
        asks = [gateway.ask(ask_as(f"a{i}")) for i in range(300)]
        results = await asyncio.gather(*asks, return_exceptions=True)
        assert all(isinstance(result, ModelError) and result.status == "error" for result in results)
        assert any(isinstance(result, ModelBrokenError) for result in results)
        assert now_s() - start_s < 180
        assert len(endpoint.arrivals) < 40, "a dead endpoint is not asked by each of three hundred"
        await gateway.aclose()


@simulated
async def test_parallel_questions_are_as_much_faster_as_there_are_places() -> None:
    async with serve(Reply('{"number": 33}', delay_s=0.1)) as endpoint:
        gateway = open_gateway(endpoint, in_flight_max=20)
        start_s = now_s()
        for number in range(100):
            await gateway.ask(ask_as(f"s{number}"))
        serial_s = now_s() - start_s
        start_s = now_s()
        await asyncio.gather(*(gateway.ask(ask_as(f"p{number}")) for number in range(100)))
        assert serial_s / (now_s() - start_s) > 19
        assert endpoint.in_flight_peak == 20
        await gateway.aclose()


@simulated
async def test_a_budget_and_a_window_hold_together() -> None:
    async with serve(GOOD, requests_per_minute=30) as endpoint:
        budget = Budget("m", tokens_max=3_000)
        gateway = open_gateway(endpoint, limits=[RateWindow("m", requests_per_minute=30), budget])
        results = await asyncio.gather(*(gateway.ask(ask_as(f"a{i}")) for i in range(700)), return_exceptions=True)
        assert sum(isinstance(result, BudgetExceededError) for result in results) > 0
        assert 2_700 <= budget.spent.tokens <= 3_000
        assert endpoint.over_limit == 0
        await gateway.aclose()
