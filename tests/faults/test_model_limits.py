"""Endpoints that sell by the minute, are busy, hang or die: no limit is broken, no question is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Any

import pytest
from pydantic import BaseModel, Field

from agent_runtime.llm import Gateway, Message, ModelBrokenError, ModelError, ModelRequest
from agent_runtime.llm.admission import (
    Budget,
    Load,
    QuotaUnavailableError,
    RateWindow,
    Share,
    SharedBudget,
    SharedWindow,
    Want,
)
from agent_runtime.llm.admission.quota_shares import Unused
from agent_runtime.llm.endpoints import BreakerState, Endpoint
from agent_runtime.llm.providers.openai import OpenAIProvider
from agent_runtime.model.errors import BudgetExceededError
from env_server.behaviours.quota import Quota
from env_server.testing import BehaviourStand, behaviour_stand
from tests.model_endpoint import Die, Hang, ModelEndpoint, Play, Reply, Status, count_most
from tests.simulated_time import now_s, simulated


class Guess(BaseModel):
    number: float = Field(ge=0, le=100)


GOOD = Reply('{"number": 33}')


def ask_as(agent: str, words: int = 3) -> ModelRequest:
    return ModelRequest(agent, 1, 0, "m", (Message("user", "word " * words),), Guess, max_tokens=50)


@asynccontextmanager
async def serve(default: Play, **options: Any) -> AsyncIterator[ModelEndpoint]:
    async with ModelEndpoint(default, clock=now_s, **options) as endpoint:
        yield endpoint
        assert endpoint.complaints == []


def open_gateway(*endpoints: ModelEndpoint, in_flight_max: int = 32, **options: Any) -> Gateway:
    providers = [OpenAIProvider(endpoint.base_url, connections_max=in_flight_max) for endpoint in endpoints]
    known = [Endpoint(provider, in_flight_max=in_flight_max) for provider in providers]
    return Gateway(known, model="m", clock=now_s, **options)


def check_use(endpoint: ModelEndpoint, minutes: float, *, requests: int, tokens: int) -> None:
    """No minute saw more, and nearly all of the tighter limit was used."""
    most = count_most(endpoint.arrivals)
    assert endpoint.over_limit == 0
    assert most[0] <= requests
    assert most[1] <= tokens
    used = sum(used for _, used in endpoint.arrivals)
    assert max(len(endpoint.arrivals) / (requests * minutes), used / (tokens * minutes)) >= 0.9


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


class StandQuota:
    """The world's quota on a simulated clock, as one node sees it. `is_cut`: the world cannot be reached."""

    def __init__(self, stand: BehaviourStand, member: str) -> None:
        self._stand = stand
        self._member = member
        self._now_s = [0.0]
        self.is_cut = False

    async def take(self, want: Want, unused: Unused) -> Share:
        told = await self._invoke(
            "take",
            member=self._member,
            requests=want.requests,
            tokens=want.tokens,
            least_tokens=want.least_tokens,
            unused=[[share, *amounts] for share, amounts in unused.items()],
        )
        if not told["requests"]:
            return Share(0, 0, 0, 0.0, told["wait_ms"] / 1000)
        return Share(told["share"], told["requests"], told["tokens"], told["ttl_ms"] / 1000)

    async def draw(self, tokens: int, microdollars: int, least: Load) -> Load:
        told = await self._invoke(
            "draw",
            tokens=tokens,
            microdollars=microdollars,
            least_tokens=least.tokens,
            least_microdollars=least.microdollars,
        )
        return Load(told["tokens"], told["microdollars"])

    async def give_back(self, tokens: int, microdollars: int, unused: Unused) -> None:
        given = [[share, *amounts] for share, amounts in unused.items()]
        await self._invoke("give_back", tokens=tokens, microdollars=microdollars, unused=given)

    async def _invoke(self, operation: str, **arguments: Any) -> Any:
        await asyncio.sleep(0.003)
        if self.is_cut:
            raise QuotaUnavailableError("cut off")
        passed_s = now_s() - CLOCK[0]
        CLOCK[0] = now_s()
        self._stand.advance(passed_s)
        answer = self._stand.invoke("/quota", operation, **arguments)
        await asyncio.sleep(0.003)
        return answer


CLOCK = [0.0]


@simulated
async def test_three_nodes_share_a_plan_through_the_world_and_one_is_killed(seed: int) -> None:
    requests, tokens, minutes = 60, 20_000, 8
    chance = random.Random(seed)
    CLOCK[0] = now_s()

    def reply(body: dict[str, Any]) -> Reply:
        return Reply('{"number": 33}', delay_s=chance.uniform(0.1, 1.0), completion_tokens=chance.randint(5, 50))

    with behaviour_stand(Quota) as stand:
        stand.register("/quota", kind="quota", config={"requests_per_minute": requests, "tokens_per_minute": tokens})
        async with serve(reply, requests_per_minute=requests, tokens_per_minute=tokens) as endpoint:
            nodes = [StandQuota(stand, f"node-{name}") for name in "abc"]
            gateways = [
                open_gateway(
                    endpoint,
                    queue_max=10_000,
                    limits=[
                        SharedWindow("m", node, requests_per_minute=requests, tokens_per_minute=tokens, clock=now_s)
                    ],
                )
                for node in nodes
            ]
            asks = [
                [asyncio.create_task(gateway.ask(ask_as(f"{place}-{i}", 20)), name="ask") for i in range(600)]
                for place, gateway in enumerate(gateways)
            ]
            await asyncio.sleep(120)
            # Killed with its shares: nothing is given back, nobody is told.
            nodes[0].is_cut = True
            for ask in asks[0]:
                ask.cancel()
            await asyncio.sleep(60.0 * minutes - 120)
            check_use(endpoint, minutes, requests=requests, tokens=tokens)
            served = [sum(ask.done() and not ask.cancelled() for ask in part) for part in asks]
            assert min(served[1:]) > 0.6 * max(served[1:]), "nobody is left out"
            assert min(served) > 0
            for ask in (*asks[1], *asks[2]):
                ask.cancel()
            await asyncio.gather(*(ask for part in asks for ask in part), return_exceptions=True)
            for gateway in gateways:
                await gateway.aclose()


@simulated
async def test_calls_wait_while_the_world_cannot_be_asked() -> None:
    CLOCK[0] = now_s()
    with behaviour_stand(Quota) as stand:
        stand.register("/quota", kind="quota", config={"requests_per_minute": 60})
        async with serve(GOOD) as endpoint:
            node = StandQuota(stand, "a")
            limit = SharedWindow("m", node, requests_per_minute=60, tokens_per_minute=None, clock=now_s)
            gateway = open_gateway(endpoint, limits=[limit])
            node.is_cut = True
            ask = asyncio.create_task(gateway.ask(ask_as("a")), name="ask")
            await asyncio.sleep(30)
            assert not ask.done()
            node.is_cut = False
            assert (await ask).value == Guess(number=33)
            await gateway.aclose()
            assert stand.get("/quota", "window")["slots"][0][1] == 1, "what was not used is given back"


@simulated
async def test_nodes_spend_a_shared_budget_to_the_end_and_give_back_what_is_left() -> None:
    CLOCK[0] = now_s()
    with behaviour_stand(Quota) as stand:
        stand.register("/quota", kind="quota", config={"tokens_max": 20_000})
        async with serve(Reply('{"number": 33}', completion_tokens=20, prompt_tokens=30)) as endpoint:
            gateways = [
                open_gateway(
                    endpoint,
                    limits=[SharedBudget("m", StandQuota(stand, name), tokens_max=20_000, microdollars_max=None)],
                )
                for name in "ab"
            ]
            early = await asyncio.gather(*(gateways[i % 2].ask(ask_as(f"a{i}")) for i in range(20)))
            assert len(early) == 20
            await gateways[0].aclose()
            late = [gateways[1].ask(ask_as(f"b{i}")) for i in range(500)]
            results = await asyncio.gather(*late, return_exceptions=True)
            refused = sum(isinstance(result, BudgetExceededError) for result in results)
            assert 0 < refused < 500
            spent = 50 * len(endpoint.requests)
            assert 20_000 - 400 <= spent <= 20_000
            await gateways[1].aclose()
            assert stand.get("/quota", "budget")["tokens"] == spent


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
