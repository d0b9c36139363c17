"""Processes of a benchmark: starting and ending them, and what they use."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from ecumene.client.errors import EcumeneError

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
ERRORS_TIMEOUT_S = 2.0
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_CPU_CLOCK = 2
"""Of a process, by the number that Linux makes of this and the process id."""


class BenchError(EcumeneError):
    """A benchmark could not be carried out; the message says which part failed and how."""


class Child:
    """One of our programs, running: it speaks in JSON lines, and ends when its standard input does."""

    def __init__(self, module: str, process: asyncio.subprocess.Process) -> None:
        self._module = module
        self._process = process

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    async def read(self, timeout_s: float) -> dict[str, Any]:
        """The next line that it prints.

        Raises BenchError if it ends first or takes too long.
        """
        document: dict[str, Any] = json.loads(await self.read_line(timeout_s))
        return document

    async def read_line(self, timeout_s: float) -> bytes:
        """The next line as it is; raises as `read` does."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                line = await self._process.stdout.readline()
        except TimeoutError as error:
            raise BenchError(f"{self._module} said nothing for {timeout_s:g} s") from error
        if not line:
            raise BenchError(f"{self._module} failed: {await _read_last_line(self._process)}")
        return line

    def kill_group(self) -> None:
        """End it now, with all processes that it started and did not end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def go(self) -> None:
        """Send it an empty line: it may begin."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    def tell(self, document: Mapping[str, Any]) -> None:
        """Send it a line of JSON."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(document).encode() + b"\n")


@asynccontextmanager
async def run_child(module: str, arguments: Iterable[str]) -> AsyncIterator[Child]:
    """Run one of our programs; it is gone when the block is left."""
    async with _run(module, sys.executable, "-m", module, *arguments) as child:
        yield child


@asynccontextmanager
async def run_script(python: str, script: Path, arguments: Iterable[str]) -> AsyncIterator[Child]:
    """Run a script in another interpreter; it is gone when the block is left, with all that it has started."""
    async with _run(script.stem, python, str(script), *arguments) as child:
        try:
            yield child
        finally:
            child.kill_group()


def read_cpu_s(pid: int) -> float:
    """CPU time of a process so far; that of its children that have ended is included, in steps of a tick (10 ms)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return time.clock_gettime(~pid << 3 | _CPU_CLOCK) + sum(map(int, fields[13:15])) / _TICKS_A_SECOND


def read_anonymous_bytes(pid: int) -> int:
    """Memory that a process holds and no file backs (RssAnon); 0 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon:")), 0)


def list_tree(pid: int) -> list[int]:
    """A process and all below it that live now."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


@asynccontextmanager
async def make_directory() -> AsyncIterator[Path]:
    """A directory for the block; removed with all that is in it."""
    directory = await asyncio.to_thread(tempfile.mkdtemp, prefix="ecumene-bench-")
    try:
        yield Path(directory)
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


@asynccontextmanager
async def _run(name: str, *command: str) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield Child(name, process)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _read_last_line(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    read = b""
    with contextlib.suppress(TimeoutError):
        # A process of its own may live on and hold the pipe open.
        async with asyncio.timeout(ERRORS_TIMEOUT_S):
            while part := await process.stderr.read(65_536):
                read += part
    lines = read.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"
