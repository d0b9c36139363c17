"""A worker as its daemon sees it: a child process that is told its part by stdin and answers by stdout."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agent_runtime.model.errors import WorkerEndedError
from agent_runtime.settings import WorkerConfig

# A stopping worker bounds itself; this is for one that does not come to it.
KILL_GRACE_S = 15.0
LINE_BYTES_MAX = 1024 * 1024


class WorkerProcess:
    """One worker process, from its start to its end. Made by `start`, ended by `stop`."""

    def __init__(self, config: WorkerConfig, process: asyncio.subprocess.Process) -> None:
        self.index = config.index
        self._process = process
        self.ready: dict[str, Any] = {}
        """The line with which it became ready."""
        self.ended: dict[str, Any] = {}
        """The line with which it ended, with its figures; empty if it gave none."""
        self.failure: WorkerEndedError | None = None
        """Why it ended, if that was not asked for, or not in order."""
        self._is_ready = asyncio.Event()
        self._is_stopping = False
        self._reader = asyncio.create_task(self._read(), name=f"worker {config.index} reader")

    @classmethod
    async def start(cls, config: WorkerConfig) -> WorkerProcess:
        """Start the process and tell it its part."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "agent_runtime.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
        )
        worker = cls(config, process)
        assert process.stdin is not None
        try:
            process.stdin.write(config.model_dump_json().encode() + b"\n")
            await process.stdin.drain()
        except ConnectionError:
            pass  # it ended at once; its reader says why
        return worker

    async def wait_ready(self) -> None:
        """Until it watches the world. Raises WorkerEndedError if it ends before."""
        waiting = asyncio.create_task(self._is_ready.wait(), name=f"worker {self.index} ready")
        try:
            await asyncio.wait({waiting, self._reader}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not self._is_ready.is_set():
            await self.wait_ended()

    async def wait_ended(self) -> None:
        """Until it ends by itself. Raises WorkerEndedError then."""
        await asyncio.shield(self._reader)
        if self.failure is not None:
            raise self.failure

    async def stop(self, timeout_s: float) -> None:
        """Let it stop in order, at most so long and a grace; then kill it. Returns when it is gone."""
        self._is_stopping = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(timeout_s + KILL_GRACE_S):
                await asyncio.shield(self._reader)
        except TimeoutError:
            self._process.kill()
            await self._reader

    async def _read(self) -> None:
        assert self._process.stdout is not None
        problem = ""
        async for line in self._process.stdout:
            told = json.loads(line)
            if told["state"] == "ready":
                self.ready = told
                self._is_ready.set()
            elif told["state"] == "ended":
                self.ended = told
            else:
                problem = told["reason"]
        code = await self._process.wait()
        if code != 0 or problem or not self._is_stopping:
            self.failure = WorkerEndedError(self.index, problem or describe_exit(code))


def describe_exit(code: int) -> str:
    """How a process ended, in words."""
    return f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
