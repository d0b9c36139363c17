"""Silence is noticed after its limit, and not because this program itself stood still."""

from __future__ import annotations

import asyncio
import time

from ecumene.client.heartbeat import Heartbeat


async def test_silence_is_noticed_after_the_limit() -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    heartbeat = Heartbeat(0.05)
    await heartbeat.silence
    assert 0.045 <= loop.time() - started < 0.5
    heartbeat.stop()


async def test_every_message_starts_the_limit_anew() -> None:
    heartbeat = Heartbeat(0.1)
    for _ in range(6):
        await asyncio.sleep(0.04)
        heartbeat.beat()
    assert not heartbeat.silence.done()
    heartbeat.stop()


async def test_a_loop_that_stood_still_reads_first_what_has_arrived() -> None:
    heartbeat = Heartbeat(0.1)
    asyncio.get_running_loop().call_later(0.01, time.sleep, 0.3)
    await asyncio.sleep(0.02)
    assert not heartbeat.silence.done()
    heartbeat.beat()
    heartbeat.stop()
