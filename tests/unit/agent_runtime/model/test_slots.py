"""Slots: bounded, first come first served, none lost to cancellation."""

from __future__ import annotations

import asyncio
import random

import pytest

from agent_runtime.model.slots import Slots


async def test_waiters_are_served_in_order() -> None:
    slots, served = Slots(1), []

    async def hold(name: int) -> None:
        await slots.acquire()
        served.append(name)
        await asyncio.sleep(0)
        slots.release()

    await asyncio.gather(*(hold(name) for name in range(50)))
    assert served == list(range(50))


async def test_a_slot_granted_to_a_cancelled_waiter_goes_to_the_next() -> None:
    slots = Slots(1)
    await slots.acquire()
    first = asyncio.create_task(slots.acquire(), name="first")
    second = asyncio.create_task(slots.acquire(), name="second")
    await asyncio.sleep(0)
    slots.release()  # granted to the first, which has not run yet
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    async with asyncio.timeout(20):
        await second


async def test_random_cancellations_neither_lose_nor_invent_slots(seed: int) -> None:
    chance, slots, inside, peak = random.Random(seed), Slots(5), 0, 0

    async def hold() -> None:
        nonlocal inside, peak
        await slots.acquire()
        inside += 1
        peak = max(peak, inside)
        try:
            await asyncio.sleep(0)
        finally:
            inside -= 1
            slots.release()

    for _ in range(200):
        tasks = [asyncio.create_task(hold(), name=f"hold-{i}") for i in range(20)]
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)
        for task in chance.sample(tasks, 10):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert peak == 5
    async with asyncio.timeout(20):
        for _ in range(5):
            await slots.acquire()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await slots.acquire()
