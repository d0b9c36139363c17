"""A host as whoever starts it sees it: a child process that ends with its parent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agent_runtime.model.errors import AgentRuntimeError
from agent_runtime.programs.output import LINE_BYTES_MAX

READY_TIMEOUT_S = 30.0
KILL_GRACE_S = 10.0
REST_S = 1.0
"""What was written before the end is read within this time, even if somebody else holds the pipe."""


class HostEndedError(AgentRuntimeError):
    """A host ended by itself; `problem` is the reason that it gave, or how its process ended."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = " ".join(problem.split())
        super().__init__(f"workflow host {name}: {self.problem}")


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What a host may import, where it finds that, and where it records.

    Attributes:
        modules: with actors; flows may name no other.
        any_module: they may name any that is installed. Whoever may write to the world has it imported then.
        paths: folders with modules.
        recording: folder of the turns that its calls are recorded as.
        lease_ttl_s: a host that is silent so long is lost.
        stop_timeout_s: a stop gives calls so long to end.
    """

    modules: Sequence[str] = ()
    any_module: bool = False
    paths: Sequence[Path] = ()
    recording: Path | None = None
    lease_ttl_s: float = 5.0
    stop_timeout_s: float = 30.0

    def list_arguments(self) -> list[str]:
        """Of the program of a host."""
        arguments = ["--lease-ttl-s", str(self.lease_ttl_s), "--stop-timeout-s", str(self.stop_timeout_s)]
        for name, values in (("--module", self.modules), ("--path", self.paths)):
            for value in values:
                arguments += [name, str(value)]
        if self.any_module:
            arguments.append("--any-module")
        if self.recording is not None:
            arguments += ["--recording", str(self.recording)]
        return arguments


class HostProcess:
    """One host process. Start it with `start`, or `async with`; it goes when this process does."""

    def __init__(self, server: str, name: str, settings: HostSettings, *, world: str = "main") -> None:
        self.name = name
        self.ended: dict[str, Any] = {}
        """Its last line, with figures; empty if it gave none."""
        self._stop_timeout_s = settings.stop_timeout_s
        self._arguments = ["--server", server, "--world", world, "--name", name, "--with-parent"]
        self._arguments += settings.list_arguments()
        self._process: asyncio.subprocess.Process | None = None
        self._is_ready = asyncio.Event()
        self._end: asyncio.Task[int] | None = None

    @property
    def pid(self) -> int:
        """Of the living process."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    async def start(self) -> Self:
        """Start it, and return when it takes calls. When it fails, or is cancelled, nothing is left.

        Raises:
            HostEndedError: it did not come to that.
        """
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agent_runtime.workflows.host", *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
        )
        self._is_ready.clear()
        self.ended = {}
        self._end = asyncio.create_task(self._follow(process), name=f"workflow host {self.name}")
        ready = asyncio.create_task(self._is_ready.wait(), name=f"workflow host {self.name} ready")
        try:
            await asyncio.wait({ready, self._end}, timeout=READY_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await self.kill()
            raise
        finally:
            ready.cancel()
        if not self._is_ready.is_set():
            code = await self.kill()
            raise HostEndedError(self.name, str(self.ended.get("reason", f"exit code {code}")))
        return self

    async def wait_ended(self) -> int:
        """Until it has ended, by itself or not; returns the exit code."""
        return 0 if self._end is None else await asyncio.shield(self._end)

    async def stop(self) -> int:
        """SIGTERM; returns the exit code. One that does not end in time is killed."""
        process = self._process
        if process is None or self._end is None:
            return 0
        if process.returncode is None:
            process.terminate()
        await asyncio.wait({self._end}, timeout=self._stop_timeout_s + KILL_GRACE_S)
        return await self.kill()

    async def kill(self) -> int:
        """SIGKILL if it still runs; returns the exit code when it is gone."""
        process, self._process = self._process, None
        if process is None or self._end is None:
            return 0
        if process.returncode is None:
            process.kill()
        return await asyncio.shield(self._end)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _follow(self, process: asyncio.subprocess.Process) -> int:
        """Read what it says until it has ended: whoever is not read stands still when the pipe is full."""
        assert process.stdout is not None and process.stdin is not None
        reading = asyncio.create_task(self._read(process.stdout), name=f"workflow host {self.name} output")
        try:
            code = await process.wait()
            await asyncio.wait({reading}, timeout=REST_S)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            process.stdin.close()
        return code

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stream.readline()
            except ValueError:
                continue  # too long for one of its own
            if not line:
                return
            self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(told, dict):
            return
        if told.get("state") == "ready":
            self._is_ready.set()
        elif told.get("state") in ("ended", "failed"):
            self.ended = told
