"""Tasks that somebody owns: told to end, told again, and left."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.model import owned_tasks
from agent_runtime.model.owned_tasks import OwnedTasks


async def test_what_takes_no_notice_is_told_twice_and_left(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(owned_tasks, "CANCEL_WAIT_S", 0.05)
    monkeypatch.setattr(owned_tasks, "CANCEL_AGAIN_WAIT_S", 0.05)
    told: dict[str, int] = {"stubborn": 0, "hard of hearing": 0, "tidy": 0}
    end = asyncio.Event()

    async def resist(name: str, times: int) -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                told[name] += 1
                if told[name] > times:
                    raise

    tasks = OwnedTasks()
    started = [tasks.start(resist(name, times), name) for name, times in (("stubborn", 99), ("hard of hearing", 1))]
    started.append(tasks.start(resist("tidy", 0), "tidy"))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await tasks.cancel_all()
    assert told == {"stubborn": 2, "hard of hearing": 2, "tidy": 1}
    assert len(tasks) == 1 and "stubborn" in caplog.text
    end.set()
    await asyncio.gather(*started, return_exceptions=True)


async def test_tasks_that_begin_others_as_they_end_leave_none() -> None:
    tasks = OwnedTasks()

    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    async def begin_another() -> None:
        try:
            await wait()
        finally:
            tasks.start(wait(), "another")

    tasks.start(begin_another(), "first")
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await tasks.cancel_all()
    assert len(tasks) == 0
