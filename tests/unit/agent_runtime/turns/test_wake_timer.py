"""The one timer of a part: set where somebody first wants to be woken, and set again when it cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from ecumene.client import (
    ClockNotFoundError,
    EcumeneError,
    EnvironmentNotFoundError,
    UnavailableError,
    World,
)
from ecumene.client.errors import ErrorDetails

from agent_runtime.actions.outbox import Outbox
from agent_runtime.agents.cohort import Cohort
from agent_runtime.model.incidents import Incidents
from agent_runtime.model.owned_tasks import OwnedTasks
from agent_runtime.ownership.wake_book import WakeBook
from agent_runtime.settings import WorkerSettings
from agent_runtime.turns import wake_timer
from agent_runtime.turns.part_wakes import PartWakes
from agent_runtime.turns.wake_timer import WakeTimer
from tests.unit.agent_runtime.fake_world import FakeWorld
from tests.unit.agent_runtime.stage import wait_until

TIMER = ("/game", "wakes.r:g.0")


async def stay() -> None:
    """The clock is the one that was there."""


@asynccontextmanager
async def running(
    world: FakeWorld, lost: list[str], join_again: Callable[[], Awaitable[object]] | None = None
) -> AsyncIterator[tuple[PartWakes, WakeTimer]]:
    world.clock_ns = 0
    told = cast(World, world)
    wakes = PartWakes(
        WakeBook(told, told, "r", "g.0", "/game"), Cohort(pa.table({"agent_id": ["a", "b"]})), None, Incidents()
    )
    tasks = OwnedTasks()
    timer = WakeTimer(wakes, Outbox(told, tasks, WorkerSettings(), lost.append), join_again or stay)
    tasks.start(timer.run(), "timer")
    try:
        yield wakes, timer
    finally:
        await tasks.cancel_all()


async def test_it_is_set_anew_only_for_who_wants_to_be_woken_earlier_and_when_it_has_fired() -> None:
    world = FakeWorld()
    async with running(world, []) as (wakes, timer):
        assert timer.is_told
        wakes.begin(np.array([50, 70], dtype=np.int64))
        assert not timer.is_told
        await wait_until(lambda: timer.is_told)
        assert (world.timers, world.timers_set) == ({TIMER: 50}, 1)
        wakes.end_many(np.array([1]), np.array([60]))
        await asyncio.sleep(0)
        assert world.timers_set == 1
        wakes.end_many(np.array([1]), np.array([40]))
        await wait_until(lambda: timer.is_told)
        assert (world.timers, world.timers_set) == ({TIMER: 40}, 2)
        del world.timers[TIMER]
        timer.note_fired()
        wakes.fire(20, 40)
        await wait_until(lambda: timer.is_told)
        assert world.timers == {TIMER: 50}


async def test_it_is_set_again_when_the_world_could_not(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FakeWorld()
    monkeypatch.setattr(wake_timer, "RETRY_S", 0.001)
    async with running(world, []) as (wakes, timer):
        tries = []

        async def set_timer(at_ns: int) -> None:
            tries.append(at_ns)
            if len(tries) < 3:
                raise UnavailableError(ErrorDetails(reason="RECOVERING"))

        monkeypatch.setattr(wakes.book, "set_timer", set_timer)
        wakes.begin(np.array([50, 70], dtype=np.int64))
        await wait_until(lambda: timer.is_told)
        assert tries == [50, 50, 50]


async def test_who_owns_the_part_no_more_sets_nothing() -> None:
    world, lost = FakeWorld(), list[str]()
    world.fence_holds = False
    async with running(world, lost) as (wakes, _):
        wakes.begin(np.array([50, 70], dtype=np.int64))
        await wait_until(lambda: lost)
        assert world.timers == {}


@pytest.mark.parametrize("error", [EnvironmentNotFoundError, ClockNotFoundError])
async def test_a_clock_that_is_gone_is_told_once_and_the_timer_is_set_on_the_next_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[EcumeneError]
) -> None:
    world, joined, tries = FakeWorld(), list[int](), list[int]()
    monkeypatch.setattr(wake_timer, "GONE_RETRY_S", 0.001)

    async def join_again() -> None:
        joined.append(len(tries))

    async with running(world, [], join_again) as (wakes, timer):
        wakes.begin(np.array([50, 70], dtype=np.int64))
        await wait_until(lambda: timer.is_told)
        set_timer = wakes.book.set_timer

        async def fail(at_ns: int) -> None:
            tries.append(at_ns)
            raise error(ErrorDetails(message="nothing is there"))

        monkeypatch.setattr(wakes.book, "set_timer", fail)
        world.timers.clear()
        timer.note_gone()
        await wait_until(lambda: len(tries) >= 5)
        (told,) = [record.getMessage() for record in caplog.records]
        assert "make /game again, with a clock, or end the run" in told
        monkeypatch.setattr(wakes.book, "set_timer", set_timer)
        await wait_until(lambda: timer.is_told)
        assert world.timers == {TIMER: 50} and joined[0] == 0 and len(joined) > len(tries) - 1
        assert "by time again" in caplog.records[-1].getMessage() and len(caplog.records) == 2


async def test_who_has_nobody_to_wake_joins_the_next_clock_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world, tries = FakeWorld(), list[str]()
    monkeypatch.setattr(wake_timer, "GONE_RETRY_S", 0.001)

    async def join_again() -> None:
        tries.append("again")
        if len(tries) < 3:
            raise ClockNotFoundError(ErrorDetails(message="nothing is there"))

    async with running(world, [], join_again) as (_, timer):
        timer.note_gone()
        await wait_until(lambda: len(tries) == 3 and timer.is_told)
        assert not world.timers and not caplog.records
        timer.note_fired()
        for _ in range(5):
            await asyncio.sleep(0.002)
        assert len(tries) == 3
