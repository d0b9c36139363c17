"""Nodes that share a plan or a budget through the world: together they keep it, whatever becomes of one of them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from agent_runtime.llm.admission import (
    Load,
    QuotaUnavailableError,
    Share,
    SharedBudget,
    SharedWindow,
    Want,
)
from agent_runtime.llm.admission.quota_shares import Unused
from agent_runtime.model.errors import BudgetExceededError
from env_server.behaviours.quota import Quota
from env_server.testing import BehaviourStand, behaviour_stand
from tests.faults.limited_models import GOOD, Guess, ask_as, check_use, open_gateway, serve
from tests.model_endpoint import Reply
from tests.simulated_time import now_s, simulated


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
