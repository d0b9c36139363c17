"""What is asked to end ends in order, once, and whoever asks waits for that."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from ecumene.sim.runs.directory import RunLock
from ecumene.sim.runs.stopping import (
    REQUEST_NAME,
    RunStoppedError,
    StopTimeoutError,
    heed_requests,
    is_conducted,
    request_stop,
)


async def conduct(directory: Path, begun: asyncio.Event, ended: list[str], *, is_deaf: bool = False) -> None:
    async with RunLock(directory), heed_requests(directory):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if is_deaf:
                await asyncio.sleep(1.0)
            ended.append("in order")
            raise


async def test_a_request_ends_it_in_order_and_is_waited_for(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), list[str]()
    conducting = asyncio.create_task(conduct(tmp_path, begun, ended), name="conduct")
    await begun.wait()
    assert is_conducted(tmp_path)
    assert await asyncio.gather(request_stop(tmp_path), request_stop(tmp_path)) == [True, True]
    assert ended == ["in order"]
    with pytest.raises(RunStoppedError):
        await conducting
    assert not (tmp_path / REQUEST_NAME).exists()
    assert not await request_stop(tmp_path)


async def test_nothing_that_was_left_by_an_earlier_life_ends_the_next(tmp_path: Path) -> None:
    (tmp_path / REQUEST_NAME).touch()
    async with RunLock(tmp_path), heed_requests(tmp_path):
        assert not (tmp_path / REQUEST_NAME).exists()


async def test_a_request_made_while_the_run_only_begins_ends_it(tmp_path: Path) -> None:
    async with RunLock(tmp_path):
        asking = asyncio.create_task(request_stop(tmp_path, timeout_s=10.0), name="ask")
        while not (tmp_path / REQUEST_NAME).exists():  # noqa: ASYNC110 - a file
            await asyncio.sleep(0)
        with pytest.raises(RunStoppedError):
            async with asyncio.timeout(20.0), heed_requests(tmp_path):
                await asyncio.Event().wait()
    assert await asking


async def test_who_is_cancelled_from_outside_is_cancelled(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), list[str]()
    conducting = asyncio.create_task(conduct(tmp_path, begun, ended), name="conduct")
    await begun.wait()
    conducting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await conducting
    assert ended == ["in order"]


async def test_who_does_not_end_in_time_is_told_of(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), list[str]()
    conducting = asyncio.create_task(conduct(tmp_path, begun, ended, is_deaf=True), name="conduct")
    await begun.wait()
    with pytest.raises(StopTimeoutError):
        await request_stop(tmp_path, timeout_s=0.4)
    with pytest.raises(RunStoppedError):
        await conducting
    assert ended == ["in order"]
