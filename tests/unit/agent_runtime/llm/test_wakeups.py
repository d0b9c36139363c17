"""Sleeps in millisecond buckets."""

from __future__ import annotations

import asyncio
import time

from agent_runtime.llm.wakeups import Wakeups


async def test_nobody_wakes_early_even_after_a_burst_that_froze_the_loop() -> None:
    wakeups = Wakeups()
    late: list[float] = []

    async def sleeper(delay_ms: float) -> None:
        started = time.monotonic()
        await wakeups.sleep_ms(delay_ms)
        late.append((time.monotonic() - started) * 1000 - delay_ms)

    tasks = [asyncio.create_task(sleeper(5 + i % 7), name=f"sleeper-{i}") for i in range(200)]
    await asyncio.sleep(0)
    time.sleep(0.02)  # noqa: ASYNC251  a loop that was busy for a while
    tasks += [asyncio.create_task(sleeper(5 + i % 7), name=f"sleeper-{i}") for i in range(200)]
    await asyncio.gather(*tasks)
    assert len(late) == 400
    assert min(late) >= 0
    assert wakeups.sleepers == 0


async def test_a_timer_that_fires_early_is_set_again() -> None:
    times = iter([10.0, 10.0, 10.0005, 10.0005, 10.1])
    sleep = Wakeups(clock=lambda: next(times, 10.1)).sleep_ms(1)
    await sleep
    assert next(times, None) is None


async def test_cancelling_one_sleeper_leaves_those_of_the_same_millisecond() -> None:
    wakeups = Wakeups(clock=lambda: 0.0 if wakeups.sleepers < 2 else 1.0)
    first, second = wakeups.sleep_ms(5), wakeups.sleep_ms(5)
    first.cancel()
    await second
    assert first.cancelled()
