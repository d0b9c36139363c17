"""The time limit of many calls on one timer."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.llm.call_timers import CallTimer, CallTimers
from tests.simulated_time import now_s, simulated


@simulated
async def test_each_call_ends_in_its_own_time_and_at_most_a_fiftieth_late() -> None:
    timers = CallTimers(10.0)
    ends_s: list[float] = []

    async def hang(start_s: float) -> None:
        await asyncio.sleep(start_s)
        begun_s = now_s()
        with pytest.raises(TimeoutError), CallTimer(timers):
            await asyncio.sleep(1000)
        ends_s.append(now_s() - begun_s)

    await asyncio.gather(*(hang(number * 0.07) for number in range(200)))
    assert min(ends_s) >= 10.0
    assert max(ends_s) <= 10.2 + 1e-6


@simulated
async def test_a_call_that_ends_in_time_is_left_alone_and_leaves_nothing() -> None:
    timers = CallTimers(1.0)
    for _ in range(100):
        with CallTimer(timers):
            await asyncio.sleep(0.5)
    assert not timers._out
    await asyncio.sleep(10)
    timers.close()


@simulated
async def test_a_cancellation_from_outside_stays_one_even_in_the_last_moment() -> None:
    timers = CallTimers(1.0)

    async def call() -> None:
        with CallTimer(timers):
            await asyncio.sleep(1000)

    task = asyncio.create_task(call(), name="call")
    await asyncio.sleep(0.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    late = asyncio.create_task(call(), name="late")
    loop = asyncio.get_running_loop()
    loop.call_later(1.0, late.cancel)
    outcome = (await asyncio.gather(late, return_exceptions=True))[0]
    assert isinstance(outcome, asyncio.CancelledError | TimeoutError)
    timers.close()


@simulated
async def test_what_is_awaited_after_a_timeout_goes_on() -> None:
    timers = CallTimers(1.0)

    async def twice() -> int:
        for _ in range(2):
            with pytest.raises(TimeoutError), CallTimer(timers):
                await asyncio.sleep(1000)
            await asyncio.sleep(0.1)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert await asyncio.create_task(twice(), name="twice") == 0
    timers.close()
