"""Several endpoints: the least loaded by weight, around those that are busy or broken; what busy ones get."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.llm import Gateway, Message, ModelRequest, ModelUnavailableError
from agent_runtime.llm.endpoints import Endpoint, Pool
from tests.simulated_time import now_s, simulated
from tests.unit.agent_runtime.llm.providers_of_tests import Answering, Silent


def request(agent: str) -> ModelRequest:
    return ModelRequest(agent, 1, 0, "m", (Message("user", "Pick a number."),))


def busy(retry_after_s: float | None = None) -> ModelUnavailableError:
    return ModelUnavailableError("m", "h", "busy", http_status=429, retry_after_s=retry_after_s)


def test_calls_are_spread_by_weight_and_by_what_is_in_flight() -> None:
    light, heavy = Endpoint(Silent(), weight=1.0), Endpoint(Silent(), weight=3.0)
    pool = Pool([light, heavy])
    for _ in range(40):
        assert pool.enter(0.0) is not None
    assert (light.in_flight, heavy.in_flight) == (10, 30)
    for _ in range(10):
        heavy.note_answer()
    assert pool.enter(0.0) is heavy
    assert (light.in_flight, heavy.in_flight) == (10, 21)


@simulated
async def test_calls_that_are_answered_at_once_are_spread_as_well() -> None:
    providers = [Answering(), Answering()]
    gateway = Gateway([Endpoint(provider) for provider in providers], clock=now_s)
    for number in range(20):
        await gateway.ask(request(f"a{number}"))
    assert [provider.calls for provider in providers] == [10, 10]
    await gateway.aclose()
    assert [provider.closed for provider in providers] == [1, 1]


@simulated
async def test_a_slow_endpoint_gets_fewer_calls_and_a_dead_one_none() -> None:
    fast, slow, dead = Answering(delay_s=0.1), Answering(delay_s=1.0), Answering()
    dead.failing = ModelUnavailableError("m", "h", "gone")
    endpoints = [Endpoint(provider, in_flight_max=10, name=f"e{i}") for i, provider in enumerate((fast, slow, dead))]
    gateway = Gateway(endpoints, clock=now_s)
    answers = await asyncio.gather(*(gateway.ask(request(f"a{number}")) for number in range(600)))
    assert len(answers) == 600
    assert fast.calls > 4 * slow.calls
    assert dead.calls < 60
    told = {one.name: one for one in gateway.statistics().endpoints}
    assert told["e2"].answers == 0
    assert told["e2"].opened >= 1
    await gateway.aclose()


@simulated
async def test_a_lone_question_leaves_a_dead_endpoint_for_one_that_lives() -> None:
    # With nothing in flight and no answers the dead one would always be the least loaded.
    dead, living = Answering(), Answering()
    dead.failing = ModelUnavailableError("m", "h", "gone")
    gateway = Gateway([Endpoint(dead), Endpoint(living)], clock=now_s)
    for number in range(6):
        answer = await gateway.ask(request(f"a{number}"))
        assert answer.attempts <= 2
    assert dead.calls == 1
    await gateway.aclose()


@simulated
async def test_an_endpoint_that_comes_back_is_asked_again() -> None:
    back, living = Answering(), Answering()
    back.failing = ModelUnavailableError("m", "h", "gone")
    gateway = Gateway([Endpoint(back), Endpoint(living)], clock=now_s)
    await asyncio.gather(*(gateway.ask(request(f"a{number}")) for number in range(20)))
    back.failing = None
    await asyncio.sleep(10)  # in simulated time: beyond its breaker's first pause
    told_before = back.calls
    for number in range(20):
        await gateway.ask(request(f"b{number}"))
    assert back.calls >= told_before + 10
    await gateway.aclose()


@pytest.mark.parametrize("asked_s", [None, 7.0])
def test_a_busy_endpoint_is_left_alone_then_gets_half_as_many_calls(asked_s: float | None) -> None:
    endpoint = Endpoint(Silent(), in_flight_max=8)
    assert all(endpoint.try_enter(100.0) for _ in range(8))
    assert not endpoint.try_enter(100.0)
    for _ in range(8):
        endpoint.note_error(busy(asked_s), 100.0, 99.0)
    assert endpoint.room == 4, "those that were on their way together count once"
    assert endpoint.wait_s(100.0) == (asked_s or 0.5)
    now_s = 100.0 + (asked_s or 0.5)
    assert endpoint.wait_s(now_s) == 0.0
    assert not endpoint.try_enter(now_s - 0.01)
    assert all(endpoint.try_enter(now_s) for _ in range(4))
    assert endpoint.wait_s(now_s) is None
    for _ in range(4):
        endpoint.note_answer()
    assert endpoint.room == 5
    for _ in range(100):
        assert endpoint.try_enter(now_s)
        endpoint.note_answer()
    assert endpoint.room == 8


def test_a_busy_endpoint_that_says_no_time_is_left_alone_longer_each_time() -> None:
    endpoint, now_s, waits_s = Endpoint(Silent()), 0.0, []
    for _ in range(8):
        assert endpoint.try_enter(now_s)
        endpoint.note_error(busy(), now_s, now_s)
        wait_s = endpoint.wait_s(now_s)
        assert wait_s is not None
        waits_s.append(wait_s)
        now_s += wait_s
    assert waits_s == [0.5, 1, 2, 4, 8, 16, 20, 20]
    assert endpoint.breaker.is_closed, "busy is not broken"


def test_a_pool_without_endpoints_and_endpoints_without_sense_are_refused() -> None:
    with pytest.raises(ValueError):
        Pool([])
    with pytest.raises(ValueError):
        Endpoint(Silent(), weight=0)
