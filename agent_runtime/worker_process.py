"""A worker as its daemon sees it: a child process that is told by stdin what to host, and answers by stdout."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Callable
from typing import Any

from agent_runtime.model.errors import CommandFailedError, WorkerEndedError
from agent_runtime.settings import WorkerConfig

# A stopping worker bounds itself; this is for one that does not come to it.
KILL_GRACE_S = 15.0
LINE_BYTES_MAX = 1024 * 1024
OnLost = Callable[[str, str], None]
"""Is told of a part that a worker owns no more, and why."""


class WorkerProcess:
    """One worker process, from its start to its end. Made by `start`, ended by `stop`."""

    def __init__(
        self, config: WorkerConfig, process: asyncio.subprocess.Process, on_lost: OnLost | None = None
    ) -> None:
        self.index = config.index
        self._process = process
        self._on_lost = on_lost
        self.ready: dict[str, Any] = {}
        """The line with which it became ready."""
        self.ended: dict[str, Any] = {}
        """The line with which it ended, with its figures; empty if it gave none."""
        self.failure: WorkerEndedError | None = None
        """Why it ended, if that was not asked for, or not in order."""
        self._is_ready = asyncio.Event()
        self._is_stopping = False
        self._problem = ""
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader = asyncio.create_task(self._read(), name=f"worker {config.index} reader")

    @classmethod
    async def start(cls, config: WorkerConfig, on_lost: OnLost | None = None) -> WorkerProcess:
        """Start the process and tell it what to host. Without `on_lost`, a worker that loses a part is stopped."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "agent_runtime.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
        )
        worker = cls(config, process, on_lost)
        assert process.stdin is not None
        try:
            process.stdin.write(config.model_dump_json().encode() + b"\n")
            await process.stdin.drain()
        except ConnectionError:
            pass  # it ended at once; its reader says why
        return worker

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

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

    async def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Give it a command (see `commands`), and wait for its answer.

        Raises CommandFailedError with the worker's reason, WorkerEndedError if it ends before it answers.
        """
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"id": number, "do": do, **arguments}).encode() + b"\n")
            await self._process.stdin.drain()
            ends: set[asyncio.Future[Any]] = {answer, self._reader}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        except ConnectionError:
            await asyncio.shield(self._reader)
        finally:
            del self._asked[number]
        if not answer.done():
            raise self.failure or WorkerEndedError(self.index, "it was stopped")
        told = answer.result()
        if "error" in told:
            raise CommandFailedError(self.index, do, told["error"])
        return told

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
        async for line in self._process.stdout:
            self._take(json.loads(line))
        code = await self._process.wait()
        if code != 0 or self._problem or not self._is_stopping:
            self.failure = WorkerEndedError(self.index, self._problem or describe_exit(code))

    def _take(self, told: dict[str, Any]) -> None:
        if "answer" in told:
            waiting = self._asked.get(told["answer"])
            if waiting is not None and not waiting.done():
                waiting.set_result(told)
        elif "lost" in told:
            if self._on_lost is not None:
                self._on_lost(told["lost"], told["reason"])
                return
            self._problem = self._problem or f"part {told['lost']} was lost: {told['reason']}"
            if self._process.stdin is not None:
                self._process.stdin.close()
        elif told["state"] == "ready":
            self.ready = told
            self._is_ready.set()
        elif told["state"] == "ended":
            self.ended = told
        else:
            self._problem = told["reason"]


def describe_exit(code: int) -> str:
    """How a process ended, in words."""
    return f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
