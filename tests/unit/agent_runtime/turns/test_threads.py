"""Blocking code of agents: bounded, and what hangs keeps nobody out and no worker from its end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from agent_runtime.turns.threads import AgentThreads
from tests.unit.agent_runtime.players import Blocking, Deaf
from tests.unit.agent_runtime.stage import PLAYERS, by_agent, make_launch, set_stage, wait_until


async def test_functions_that_hang_keep_no_other_out_and_the_worker_ends(tmp_path: Path) -> None:
    """More of them than the loop's own executor has threads."""
    Blocking.end.clear()
    ids = [*(f"hang-{number}" for number in range(20)), "good"]
    launch = make_launch(tmp_path, f"{PLAYERS}:Blocking", ids, turn_timeout_s=1.0)
    try:
        async with asyncio.timeout(20):
            async with set_stage(tmp_path, launch) as stage:
                for number in (1, 2):
                    stage.world.open_round(number)
                    await stage.wait_turns(21 * number)
    finally:
        Blocking.end.set()
    statuses = by_agent(stage.read("turns"))
    assert statuses.pop("good") == "ok"
    assert set(statuses.values()) == {"timeout"}
    await wait_until(lambda: not any(thread.name == "agent's code" for thread in threading.enumerate()))


async def test_what_a_function_raises_is_raised_and_its_room_is_free() -> None:
    threads = AgentThreads(running_max=1, late_max=1)

    def stop() -> None:
        raise StopIteration

    def fail() -> None:
        raise SystemExit(3)

    for _ in range(3):
        with pytest.raises(RuntimeError):
            await threads.run(stop)
        with pytest.raises(SystemExit):
            await threads.run(fail)
        assert await threads.run(lambda: 7) == 7


async def test_only_so_many_that_nobody_waits_for_do_not_count() -> None:
    threads, end = AgentThreads(running_max=1, late_max=1), threading.Event()
    try:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(threads.run(end.wait), 0.05)
        assert threads.late == 1
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(threads.run(lambda: 7), 0.05)
    finally:
        end.set()
    await wait_until(lambda: threads.late == 0)
    assert await threads.run(lambda: 7) == 7


async def test_code_that_takes_no_notice_of_its_time_is_told_again(tmp_path: Path) -> None:
    Deaf.heard, Deaf.end = 0, 3
    launch = make_launch(tmp_path, f"{PLAYERS}:Deaf", ["a"], turn_timeout_s=0.1)
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round(1)
        await stage.wait_turns(1)
        Deaf.end = 0
        stage.world.open_round(2)
        await stage.wait_turns(2)
    assert stage.statuses == {"timeout": 1, "ok": 1}
