"""Tasks whose failure is heard."""

from __future__ import annotations

import asyncio

from ecumene.workflows.background import Background


async def test_the_owner_is_told_of_a_failure_and_of_no_cancellation() -> None:
    told: list[BaseException] = []
    tasks = Background(told.append)

    async def fail() -> None:
        raise KeyError("gone")

    tasks.begin(fail(), "failing")
    tasks.begin(asyncio.sleep(60), "sleeping")
    await asyncio.sleep(0.01)
    assert [str(error) for error in told] == ["'gone'"] and len(tasks) == 1
    await tasks.close()
    assert len(told) == 1 and not len(tasks)


async def test_a_task_may_close_its_owner() -> None:
    tasks = Background(lambda error: None)
    closing = tasks.begin(tasks.close(), "closing")
    other = tasks.begin(asyncio.sleep(60), "other")
    await asyncio.wait_for(closing, 5)
    assert other.cancelled()
