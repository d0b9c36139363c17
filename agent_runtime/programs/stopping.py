"""What a program of the runtime waits for: that it is told to stop, or that something which it needs has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def wait_stop_or_failure(stop: asyncio.Event, failure: asyncio.Future[None] | Coroutine[Any, Any, None]) -> None:
    """Until the stop. Raises what `failure` ends with, if that comes first; a future stays as it is."""
    stopping = asyncio.create_task(stop.wait(), name="wait for a stop")
    failing = asyncio.create_task(_await(failure), name="wait for a failure")
    try:
        await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
        if failing.done():
            failing.result()
    finally:
        stopping.cancel()
        failing.cancel()
        await asyncio.gather(stopping, failing, return_exceptions=True)


async def _await(failure: asyncio.Future[None] | Coroutine[Any, Any, None]) -> None:
    await (asyncio.shield(failure) if asyncio.isfuture(failure) else failure)
