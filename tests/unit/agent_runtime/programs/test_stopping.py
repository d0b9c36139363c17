"""Programs wait for a stop or a failure, whichever comes first."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.programs.stopping import wait_stop_or_failure


async def test_a_stop_ends_the_wait_and_leaves_a_future_as_it_is() -> None:
    stop, failure = asyncio.Event(), asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(wait_stop_or_failure(stop, failure), name="wait")
    await asyncio.sleep(0.01)
    assert not waiting.done()
    stop.set()
    await asyncio.wait_for(waiting, 5)
    assert not failure.done()


async def test_a_failure_is_raised_whether_it_is_a_future_or_a_coroutine() -> None:
    async def fail() -> None:
        raise LookupError("gone")

    failure = asyncio.get_running_loop().create_future()
    failure.set_exception(LookupError("gone"))
    for failing in (failure, fail()):
        with pytest.raises(LookupError, match="gone"):
            await asyncio.wait_for(wait_stop_or_failure(asyncio.Event(), failing), 5)
