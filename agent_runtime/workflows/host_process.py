"""A host as whoever starts it sees it: a child process that ends with its parent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agent_runtime.model.errors import AgentRuntimeError

READY_TIMEOUT_S = 30.0
KILL_GRACE_S = 10.0


class HostEndedError(AgentRuntimeError):
    """A host ended by itself; `problem` is the reason that it gave, or how its process ended."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        self.problem = " ".join(problem.split())
        super().__init__(f"workflow host {name}: {self.problem}")


class HostProcess:
    """One host process. Start it with `start`, or `async with`; it goes when this process does."""

    def __init__(
        self,
        server: str,
        name: str,
        *,
        world: str = "main",
        paths: Sequence[Path] = (),
        modules: Sequence[str] = (),
        lease_ttl_s: float = 5.0,
        stop_timeout_s: float = 30.0,
    ) -> None:
        self.name = name
        self.ended: dict[str, Any] = {}
        """Its last line, with figures; empty if it gave none."""
        self._stop_timeout_s = stop_timeout_s
        self._arguments = ["--server", server, "--world", world, "--name", name, "--with-parent"]
        self._arguments += ["--lease-ttl-s", str(lease_ttl_s), "--stop-timeout-s", str(stop_timeout_s)]
        for path in paths:
            self._arguments += ["--path", str(path)]
        for module in modules:
            self._arguments += ["--module", module]
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Of the living process."""
        assert self._process is not None, "it does not run"
        return self._process.pid

    async def start(self) -> Self:
        """Start it, and return when it takes calls.

        Raises:
            HostEndedError: it did not come to that.
        """
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agent_runtime.workflows.host", *self._arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        line = await self._read_line(READY_TIMEOUT_S)
        if line.get("state") != "ready":
            code = await self.kill()
            raise HostEndedError(self.name, str(line.get("reason", f"exit code {code}")))
        return self

    async def stop(self) -> int:
        """SIGTERM; returns the exit code. One that does not end in time is killed."""
        process = self._process
        if process is None:
            return 0
        if process.returncode is None:
            process.terminate()
        self.ended = await self._read_line(self._stop_timeout_s + KILL_GRACE_S)
        if not self.ended and process.returncode is None:
            process.kill()
        return await self._wait()

    async def kill(self) -> int:
        """SIGKILL; returns when it is gone."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
        return await self._wait()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            await self.stop()

    async def _read_line(self, timeout_s: float) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), timeout_s)
            read: dict[str, Any] = json.loads(line) if line else {}
        except (TimeoutError, ValueError):
            read = {}
        return read

    async def _wait(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.stdin is not None:
            process.stdin.close()
        await process.communicate()
        return process.returncode or 0
