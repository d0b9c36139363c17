"""Turns in the queue: order, large requests, repeated ones first, hopeless ones at once, cancellation."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.llm import ModelBrokenError, ModelUnavailableError
from agent_runtime.llm.admission import Dispatch, Load, Permit, RateWindow
from agent_runtime.llm.endpoints import Endpoint, Pool
from tests.simulated_time import now_s, simulated
from tests.unit.agent_runtime.llm.providers_of_tests import Silent

FOREVER = 1e9


def make(in_flight_max: int = 1, *limits: RateWindow, **options: int) -> Dispatch:
    return Dispatch("m", Pool([Endpoint(Silent(), in_flight_max=in_flight_max, **options)]), limits, now_s)


def acquire_now(dispatch: Dispatch, load: Load | None = None) -> Permit:
    permit = dispatch.try_acquire(load or Load())
    assert permit is not None
    return permit


@simulated
async def test_first_come_first_served_and_repeated_ones_in_front() -> None:
    dispatch = make()
    permit = acquire_now(dispatch)
    fresh = [dispatch.queue(Load(), deadline_s=FOREVER) for _ in range(3)]
    again = [dispatch.queue(Load(), deadline_s=FOREVER, is_repeated=True) for _ in range(2)]
    assert dispatch.waiting == 5
    order = []
    for _ in range(5):
        dispatch.release(permit, Load(), None)
        (now,) = [one for one in (*fresh, *again) if one.done() and one not in order]
        order.append(now)
        permit = now.result()
    assert order == [*again, *fresh]
    dispatch.release(permit, Load(), None)
    assert dispatch.try_acquire(Load()) is not None


@simulated
async def test_a_large_request_is_not_overtaken_by_small_ones() -> None:
    dispatch = make(10, RateWindow("m", tokens_per_minute=1000))
    acquire_now(dispatch, Load(500))
    large = dispatch.queue(Load(900), deadline_s=FOREVER)
    small = dispatch.queue(Load(10), deadline_s=FOREVER)
    assert dispatch.try_acquire(Load(10)) is None
    await asyncio.sleep(61.9)
    assert not small.done()
    await asyncio.sleep(0.2)
    assert large.done()
    assert small.done()


@pytest.mark.parametrize("place", [0, 1, 2])
@simulated
async def test_whoever_is_cancelled_leaves_no_trace(place: int) -> None:
    dispatch = make()
    permit = acquire_now(dispatch)
    waiting = [dispatch.queue(Load(), deadline_s=FOREVER) for _ in range(3)]
    waiting[place].cancel()
    dispatch.give_up(waiting[place])
    assert dispatch.waiting == 2
    for _ in range(2):
        dispatch.release(permit, Load(), None)
        permit = next(
            one.result() for one in waiting if one.done() and not one.cancelled() and one.result() is not permit
        )
        waiting = [one for one in waiting if not one.done() or one.cancelled()]
    assert dispatch.waiting == 0


@simulated
async def test_a_seat_given_to_whoever_is_cancelled_in_the_same_step_goes_to_the_next() -> None:
    dispatch = make()
    permit = acquire_now(dispatch)
    first, second = (dispatch.queue(Load(), deadline_s=FOREVER) for _ in range(2))
    dispatch.release(permit, Load(), None)
    assert first.done()
    dispatch.give_up(first)
    assert second.done()


@simulated
async def test_cancelled_waiters_do_not_pile_up_behind_a_closed_gate() -> None:
    dispatch = make(10, RateWindow("m", requests_per_minute=1))
    acquire_now(dispatch)
    first = dispatch.queue(Load(), deadline_s=FOREVER)
    for _ in range(1000):
        one = dispatch.queue(Load(), deadline_s=FOREVER)
        one.cancel()
        dispatch.give_up(one)
    assert dispatch.waiting == 1
    assert len(dispatch._fresh) <= 4
    first.cancel()
    dispatch.give_up(first)
    dispatch.close()


@simulated
async def test_nobody_waits_for_a_broken_endpoint_beyond_his_time() -> None:
    dispatch = make(4, breaker_failures=2)
    for _ in range(2):
        dispatch.release(acquire_now(dispatch), Load(), ModelUnavailableError("m", "h", "gone"))
    short = dispatch.queue(Load(), deadline_s=now_s() + 3)
    long = dispatch.queue(Load(), deadline_s=now_s() + 100)
    assert isinstance(short.exception(), ModelBrokenError)
    assert not long.done()
    await asyncio.sleep(5.1)
    # The probe: one alone.
    other = dispatch.queue(Load(), deadline_s=now_s() + 7)
    assert long.done()
    assert not other.done()
    dispatch.release(long.result(), Load(), ModelUnavailableError("m", "h", "gone"))
    assert isinstance(other.exception(), ModelBrokenError)
    dispatch.close()


@simulated
async def test_nobody_waits_for_an_endpoint_that_wants_a_day_of_peace() -> None:
    dispatch = make(2)
    first, second = acquire_now(dispatch), acquire_now(dispatch)
    patient = dispatch.queue(Load(), deadline_s=now_s() + 700)
    hurried = dispatch.queue(Load(), deadline_s=now_s() + 180)
    day = ModelUnavailableError("m", "e", "full", http_status=429, retry_after_s=86_400.0)
    dispatch.release(first, Load(), day)
    dispatch.release(second, Load(), None)
    assert isinstance(hurried.exception(), ModelBrokenError)
    late = dispatch.queue(Load(), deadline_s=now_s() + 180)
    assert isinstance(late.exception(), ModelBrokenError)
    await asyncio.sleep(601)
    assert patient.done(), "a day is not believed: it is asked again after ten minutes"


@simulated
async def test_whoever_fails_and_is_cancelled_in_the_same_step_is_counted_once() -> None:
    dispatch = make(1, breaker_failures=1)
    permit = acquire_now(dispatch)
    waiting = [dispatch.queue(Load(), deadline_s=now_s() + 1) for _ in range(3)]
    dispatch.release(permit, Load(), ModelUnavailableError("m", "e", "down"))
    for one in waiting:
        assert one.exception() is not None
        dispatch.give_up(one)
    dispatch.pump()
    assert dispatch.waiting == 0
