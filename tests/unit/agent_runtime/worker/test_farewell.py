"""How long a worker that stops waits for its world."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.worker.farewell import AWAY_S_MAX, Farewell
from tests.simulated_time import now_s, simulated


async def never() -> None:
    await asyncio.get_running_loop().create_future()


@simulated
async def test_all_that_is_waited_for_shares_one_bound() -> None:
    begun_s = now_s()
    async with Farewell(lambda: True, 10) as farewell:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await farewell.wait(never())
        assert not await farewell.wait_until(lambda: False)
        assert farewell.is_over
    assert now_s() - begun_s == pytest.approx(10, abs=0.1)


@simulated
async def test_a_world_that_is_away_is_waited_for_as_long_as_a_restart_takes() -> None:
    begun_s = now_s()
    async with Farewell(lambda: False, 10) as farewell:
        with pytest.raises(TimeoutError):
            await farewell.wait(never())
    assert now_s() - begun_s == pytest.approx(AWAY_S_MAX, abs=0.1)


@simulated
async def test_a_world_that_comes_back_in_time_is_waited_for() -> None:
    begun_s = now_s()

    def is_there() -> bool:
        return (now_s() - begun_s) % 2 > AWAY_S_MAX * 0.9  # away again and again, never for long

    async def answer_late() -> str:
        await asyncio.sleep(5)
        return "answered"

    async with Farewell(is_there, 10) as farewell:
        assert await farewell.wait(answer_late()) == "answered"


@simulated
async def test_what_fails_fails_and_what_is_done_is_done() -> None:
    async def refuse() -> None:
        raise ValueError("no")

    async with Farewell(lambda: True, 10) as farewell:
        with pytest.raises(ValueError, match="no"):
            await farewell.wait(refuse())
        assert await farewell.wait_until(lambda: True)
        assert not farewell.is_over


@simulated
async def test_who_is_cancelled_leaves_nothing_running() -> None:
    has_ended = asyncio.Event()

    async def work() -> None:
        try:
            await never()
        finally:
            has_ended.set()

    async with Farewell(lambda: True, 10) as farewell:
        waiting = asyncio.create_task(farewell.wait(work()))
        await asyncio.sleep(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert has_ended.is_set()
