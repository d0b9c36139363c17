"""One service in a process of its own: ready, failed, stopped, and never an orphan."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from ecumene.launch import ServiceMissingError, ServiceStartError, start_service

pytestmark = pytest.mark.usefixtures("planted")

PARENT = """
import asyncio
from ecumene.launch import start_service


async def main():
    started = await start_service("planted", ["polite"])
    print(started.pid, flush=True)
    await started.wait()


asyncio.run(main())
"""


async def test_a_started_service_is_ready_has_its_arguments_and_stops_at_sigterm() -> None:
    started = await start_service("planted", ["polite", "--port", "0"])
    assert started.ready["arguments"] == ["polite", "--port", "0"]
    assert started.ready["pid"] == started.pid
    assert started.exit_code is None
    assert await started.stop() == 0
    assert await started.stop() == 0


async def test_a_failed_start_is_one_line_that_ends_with_the_last_of_its_stderr() -> None:
    with pytest.raises(ServiceStartError) as caught:
        await start_service("planted", ["fail"])
    assert str(caught.value) == "planted did not start (exit code 74): the directory is in use by process 7"
    assert caught.value.exit_code == 74


async def test_a_crash_at_the_start_shows_the_last_line_of_its_traceback() -> None:
    with pytest.raises(ServiceStartError) as caught:
        await start_service("planted", ["crash"])
    assert str(caught.value) == "planted did not start (exit code 1): ValueError: no such thing"


async def test_a_service_that_is_not_ready_in_time_is_killed() -> None:
    with pytest.raises(ServiceStartError, match=r"not ready after 1\.5 s\): still loading"):
        await start_service("planted", ["hang"], start_timeout_s=1.5)


async def test_a_cancelled_start_leaves_no_process() -> None:
    before = set(psutil.Process().children())  # a fixture of other tests may keep a server
    start = asyncio.create_task(start_service("planted", ["hang"]), name="start")
    await until(lambda: bool(set(psutil.Process().children()) - before))
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert not set(psutil.Process().children()) - before


async def test_a_service_that_is_not_installed_is_named() -> None:
    with pytest.raises(ServiceMissingError, match="the service absent is not part of this installation"):
        await start_service("absent", [])


async def test_a_service_deaf_to_sigterm_is_killed() -> None:
    started = await start_service("planted", ["deaf"])
    assert await started.stop(stop_timeout_s=0.2) == -signal.SIGKILL


async def test_a_kill_takes_the_processes_that_the_service_started() -> None:
    started = await start_service("planted", ["family"])
    child = psutil.Process(started.ready["child"])
    await started.stop(stop_timeout_s=0.2)
    assert is_gone(child)


async def test_what_a_service_says_after_it_is_ready_never_blocks_it(tmp_path: Path) -> None:
    started = await start_service("planted", ["talk", str(tmp_path / "done")])
    await until((tmp_path / "done").exists)
    await started.stop()


async def test_a_log_keeps_stderr_and_only_this_start_is_quoted(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "planted.log"
    log.parent.mkdir()
    log.write_text("from an earlier start\n", encoding="utf-8")
    started = await start_service("planted", ["polite"], log_path=log)
    assert started.last_error_line() == ""
    await started.stop()
    with pytest.raises(ServiceStartError):
        await start_service("planted", ["fail"], log_path=log)
    assert log.read_text(encoding="utf-8").splitlines() == [
        "from an earlier start",
        "reading the directory",
        "the directory is in use by process 7",
    ]


async def test_ctrl_c_does_not_reach_a_service() -> None:
    started = await start_service("planted", ["polite"])
    assert os.getpgid(started.pid) == started.pid != os.getpgid(0)
    await started.stop()


def test_a_service_does_not_outlive_a_parent_that_was_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    service = psutil.Process(int(parent.stdout.readline()))
    assert service.is_running()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert is_gone(service)


async def until(happened: Callable[[], bool]) -> None:
    """Wait for what another process does, which no event here can tell."""
    async with asyncio.timeout(30):
        while not happened():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def is_gone(process: psutil.Process) -> bool:
    """Whether a process ends within five seconds; a zombie that nobody waits for has ended."""
    try:
        process.wait(5)
    except psutil.TimeoutExpired:
        return process.status() == psutil.STATUS_ZOMBIE
    return True
