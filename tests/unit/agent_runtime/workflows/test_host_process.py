"""A host as a child process: read to its end, whatever its actors print, and gone when it is not wanted any more."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import psutil
import pytest
from ecumene import workflows

from agent_runtime.model.clock import Clock
from agent_runtime.workflows.host_process import HostEndedError, HostProcess, HostSettings
from agent_runtime.workflows.kept_host import Restarts, keep_host
from tests.workflow_actors import Teller

SETTINGS = HostSettings(["tests.workflow_actors"], lease_ttl_s=2.0, stop_timeout_s=5.0)


async def test_what_actors_print_neither_blocks_a_host_nor_is_taken_for_its_end(address: str) -> None:
    process = HostProcess(address, "loud", SETTINGS)
    async with process, workflows.connect(address) as flow:
        (teller,) = flow.spawn(Teller, 1, host="loud")
        assert await workflows.gather([teller.shout(200_000) for _ in range(5)]) == [200_000] * 5
        slow = teller.tell_later("done", 0.5)
        await asyncio.sleep(0.1)
        assert await process.stop() == 0
        assert await slow == "done"
    assert (process.ended["state"], process.ended["calls"]["ok"]) == ("ended", 7)


async def test_a_start_that_is_cancelled_or_fails_leaves_no_process(address: str, tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}
    starting = asyncio.create_task(HostProcess(address, "cancelled", SETTINGS).start(), name="start")
    while {child.pid for child in psutil.Process().children()} == before:  # noqa: ASYNC110 - nothing else tells
        await asyncio.sleep(0.01)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    (tmp_path / "broken_actors.py").write_text("raise RuntimeError('no')")
    broken = HostSettings(["broken_actors"], paths=[tmp_path])
    with pytest.raises(HostEndedError, match="exit code 2"):
        await HostProcess(address, "broken", broken).start()
    assert {child.pid for child in psutil.Process().children()} == before


async def test_a_kept_host_is_started_again_and_stopped_at_the_end(address: str) -> None:
    lines: list[str] = []
    process = HostProcess(address, "kept", SETTINGS)
    async with keep_host(process, Restarts(5, 60.0, 0.05, 0.1), Clock.system(), lines.append):
        first = process.pid
        async with workflows.connect(address) as flow:
            (teller,) = flow.spawn(Teller, 1, host="kept", retry=5)
            assert await teller.pid() == first
            psutil.Process(first).kill()
            async with asyncio.timeout(30):
                second = await teller.pid()
        assert second == process.pid != first
    assert not psutil.pid_exists(second)
    assert lines == ["workflow host kept ended and is started again: exit code -9"]


class DyingProcess:
    """A host that ends at once, whenever it is started."""

    name = "dying"
    ended: dict[str, Any] = {}  # noqa: RUF012 - as it is

    def __init__(self) -> None:
        self.starts = 0

    async def start(self) -> None:
        self.starts += 1
        if self.starts == 3:
            raise HostEndedError(self.name, "not this time")

    async def wait_ended(self) -> int:
        return 1

    async def stop(self) -> int:
        return 0


async def test_a_host_that_ends_too_often_is_given_up_and_that_is_told() -> None:
    lines: list[str] = []
    process, clock = DyingProcess(), Clock(itertools.count().__next__)
    async with keep_host(process, Restarts(4, 60.0, 0.001, 0.002), clock, lines.append):  # type: ignore[arg-type]
        async with asyncio.timeout(10):
            while len(lines) < 5:  # noqa: ASYNC110 - the log is a list
                await asyncio.sleep(0.01)
    assert process.starts == 5 and "not this time" in lines[2]
    assert lines[-1] == "workflow host dying is given up: it ended 5 times; at last: exit code 1"
