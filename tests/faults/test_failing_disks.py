"""A disk that fails under a server: it ends with exit code 74, and what it had answered is there when it starts again.

Needs strace, which lets the n-th fdatasync or write of the writer fail, or does as if it had been done.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import ecumene
import pytest
from ecumene.client import ClientSettings, EcumeneError

from tests.services import ServerProcess

EXIT_STORAGE = 74
SETTINGS = ClientSettings(backoff_first_ms=20, backoff_ms_max=100, attempt_timeout_s=2, reconnect_timeout_s=2)
FAULTS = {
    "EIO": ("fdatasync", "inject=fdatasync:error=EIO:when=40+"),
    "ENOSPC": ("fdatasync,pwrite64,pwritev", "inject=pwrite64,pwritev,fdatasync:error=ENOSPC:when=60+"),
}
ANSWERED_MIN = 5
CALLS = 30


async def write_until_it_ends(server: ServerProcess) -> int:
    """Counts; returns the last number that was answered."""
    answered = 0
    try:
        async with ecumene.connect(server.address, settings=SETTINGS) as world:
            while True:
                answered = (await world.environment("/").increment("n", 1)).value
    except EcumeneError:
        return answered


@pytest.mark.parametrize("fault", sorted(FAULTS))
async def test_a_disk_that_fails_ends_the_server_and_loses_nothing_answered(
    tmp_path: Path, fault: str, missing_toolchain: Callable[[str], NoReturn]
) -> None:
    if not shutil.which("strace"):
        missing_toolchain("strace, to let a disk fail")
    calls, injection = FAULTS[fault]
    server = ServerProcess(tmp_path / "data")
    with server:
        command = ["strace", "-f", "-p", str(server.pid), "-o", "/dev/null", "-e", f"trace={calls}", "-e", injection]
        tracer = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        try:
            assert tracer.stderr is not None
            attached = (await tracer.stderr.readline()).decode()
            if "attached" not in attached:
                missing_toolchain(f"strace may not attach: {attached.strip()}")
            answered = await write_until_it_ends(server)
            assert await asyncio.to_thread(server.wait) == EXIT_STORAGE
        finally:
            if tracer.returncode is None:
                tracer.kill()
            await tracer.wait()
        assert answered >= ANSWERED_MIN, "it failed before there was anything to lose"
        log = server.log_path.read_text()
        assert "the storage failed" in log
        assert "Traceback" not in log
        server.start()
        async with ecumene.connect(server.address) as world:
            value = await world.environment("/").value("n")
            # What was not answered may be there, or not: the SDK had at most one op in flight.
            assert value in (answered, answered + 1)
        assert server.stop() == 0


async def count_unsynced(server: ServerProcess, trace: Path, missing_toolchain: Callable[[str], NoReturn]) -> int:
    """Of CALLS calls one after the other, those that were answered without a sync since the answer before."""
    unsynced = synced = 0
    async with ecumene.connect(server.address) as world:
        command = ["strace", "-f", "-p", str(server.pid), "-o", str(trace), "-e", "trace=fdatasync"]
        tracer = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        try:
            assert tracer.stderr is not None
            attached = (await tracer.stderr.readline()).decode()
            if "attached" not in attached:
                missing_toolchain(f"strace may not attach: {attached.strip()}")
            for _ in range(CALLS):
                await world.environment("/").increment("n", 1)
                now = await asyncio.to_thread(lambda: trace.read_text().count(" = 0"))
                unsynced += now == synced
                synced = now
        finally:
            tracer.terminate()
            await tracer.wait()
    return unsynced


@pytest.mark.parametrize("is_planted", [False, True], ids=["as_it_is", "planted"])
async def test_no_answer_comes_before_its_sync(
    tmp_path: Path, is_planted: bool, missing_toolchain: Callable[[str], NoReturn]
) -> None:
    """Case 14: acknowledged before fsync. A server that skips it, planted by the tests, is noticed."""
    if not shutil.which("strace"):
        missing_toolchain("strace, to see fdatasync")
    planted = ("--behaviour", "tests.faults.unsynced_storage:Plant") if is_planted else ()
    with ServerProcess(tmp_path / "data", *planted) as server:
        unsynced = await count_unsynced(server, tmp_path / "trace", missing_toolchain)
        assert unsynced == (CALLS if is_planted else 0)
