"""A worker as its daemon sees it: a child process that is told by stdin what to host, and answers by stdout."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from agent_runtime.model.errors import CommandError, WorkerEndedError
from agent_runtime.programs.output import LINE_BYTES_MAX
from agent_runtime.settings import WorkerConfig
from agent_runtime.worker.commands import Command

# A stopping worker bounds itself; this is for one that does not come to it.
KILL_GRACE_S = 15.0
LAST_WORDS_S = 1.0
"""What a worker that is gone has written is read for so long: processes that it began may keep its pipes open."""
PROGRAM = (sys.executable, "-m", "agent_runtime.worker")
DIE_WITH = "--die-with"
"""Before the id of this process, on the command line of a worker that is killed when it is gone."""

Hear = Callable[[dict[str, Any]], None]
"""Is told what a worker says by itself: parts that it lost, turns that wait for a person."""
Log = Callable[[str], None]
"""Takes a line that is for people."""


class WorkerProcess:
    """One worker process, from its start to its end. Made by `start`, ended by `stop` or `kill`."""

    def __init__(
        self,
        config: WorkerConfig,
        transport: asyncio.SubprocessTransport,
        protocol: _Exit,
        hear: Hear | None,
        log: Log | None,
        *,
        leads_session: bool,
    ) -> None:
        self.index = config.index
        self._transport = transport
        self._exit = protocol
        self._leads_session = leads_session
        self._process = asyncio.subprocess.Process(transport, protocol, asyncio.get_running_loop())
        self._hear = hear
        self._log = log
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.ready: dict[str, Any] = {}
        """The line with which it became ready."""
        self.ended: dict[str, Any] = {}
        """The line with which it ended, with its figures; empty if it gave none."""
        self.failure: WorkerEndedError | None = None
        """Why it ended, if that was not asked for, or not in order."""
        self._is_ready = asyncio.Event()
        self._is_stopping = False
        self._problem = ""
        self._reader = asyncio.create_task(self._read(), name=f"worker {config.index} reader")

    @classmethod
    async def start(
        cls,
        config: WorkerConfig,
        *,
        program: Sequence[str] = PROGRAM,
        dies_with_us: bool = False,
        hear: Hear | None = None,
        log: Log | None = None,
    ) -> WorkerProcess:
        """Start the process and tell it its part.

        `dies_with_us`: it is killed when this process is gone, instead of stopping in order; and what it has begun
        itself is killed when it is gone. `log` takes the lines of its stderr, which is this process's otherwise.
        """
        tie = (DIE_WITH, str(os.getpid())) if dies_with_us else ()
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.subprocess_exec(
            lambda: _Exit(LINE_BYTES_MAX, loop),
            *program,
            *tie,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if log is None else asyncio.subprocess.PIPE,
            start_new_session=dies_with_us,
        )
        worker = cls(config, transport, protocol, hear, log, leads_session=dies_with_us)
        await worker._write(config.model_dump_json())
        return worker

    @property
    def pid(self) -> int:
        """Process id; that of a process that is gone may be another's by now."""
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        """Whether it has ended and was waited for."""
        return self._reader.done()

    async def ask(self, make: Callable[[int], Command], timeout_s: float) -> dict[str, Any]:
        """Have a command done, whose id is given to `make`; returns the answer.

        Raises:
            CommandError: the worker cannot do it, and says why.
            WorkerEndedError: it has ended, or ends meanwhile.
            TimeoutError: no answer in time.
        """
        number = next(self._numbers)
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answered
        try:
            if self._reader.done():
                raise self.failure or WorkerEndedError(self.index, "it has ended")
            async with asyncio.timeout(timeout_s):
                await self._write(make(number).model_dump_json())
                answer = await answered
        finally:
            self._asked.pop(number, None)
        if (problem := answer.get("error")) is not None:
            raise CommandError(str(problem), may_pass=answer.get("may_pass") is True)
        return answer

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

    async def stop(self, timeout_s: float, grace_s: float = KILL_GRACE_S) -> None:
        """Let it stop in order, at most so long and a grace; then kill it. Returns when it is gone."""
        self._is_stopping = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(timeout_s + grace_s):
                await asyncio.shield(self._reader)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        """End it now. Returns when it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await asyncio.shield(self._reader)

    async def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            await self._process.stdin.drain()
        except (ConnectionError, RuntimeError):
            pass  # it has ended; its reader says why

    async def _read(self) -> None:
        """Hear the worker until its process is gone, whoever else holds its pipes then."""
        reading = [
            asyncio.create_task(self._read_lines(), name=f"worker {self.index} stdout"),
            asyncio.create_task(self._read_errors(), name=f"worker {self.index} stderr"),
        ]
        try:
            await self._exit.exited.wait()
            self._kill_left()
            await asyncio.wait(reading, timeout=LAST_WORDS_S)
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
            self._transport.close()
            self._end_asked(self._problem)
        code = self._process.returncode or 0
        if code != 0 or self._problem or not self._is_stopping:
            self.failure = WorkerEndedError(self.index, self._problem or describe_exit(code))

    def _kill_left(self) -> None:
        """End what the worker has begun and left behind."""
        if self._leads_session:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def _read_lines(self) -> None:
        while line := await self._read_line(self._process.stdout):
            problem = self._take(line)
            self._problem = self._problem or problem

    async def _read_errors(self) -> None:
        if self._process.stderr is None or self._log is None:
            return
        while line := await self._read_line(self._process.stderr):
            self._log(line.decode("utf-8", "replace").rstrip())

    @staticmethod
    async def _read_line(stream: asyncio.StreamReader | None) -> bytes:
        """The next line; b"" at the end. One that is too long is dropped."""
        assert stream is not None
        while True:
            try:
                return await stream.readline()
            except ValueError:
                continue

    def _take(self, line: bytes) -> str:
        """Take a line; returns the reason with which the worker failed, if it says so."""
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict) or not isinstance(told.get("answer", 0), int):
            # Of no worker of ours: for people.
            if self._log is not None:
                self._log(line.decode("utf-8", "replace").rstrip())
        elif "answer" in told:
            answered = self._asked.pop(told["answer"], None)
            if answered is not None and not answered.done():
                answered.set_result(told)
        elif told.get("state") == "ready":
            self.ready = told
            self._is_ready.set()
        elif told.get("state") == "ended":
            self.ended = told
        elif told.get("state") == "failed":
            return str(told.get("reason") or "it failed")
        elif self._hear is not None:
            self._hear(told)
        elif "lost" in told:
            # Nobody here can host it anew: what is left of the worker is stopped in order.
            if self._process.stdin is not None:
                self._process.stdin.close()
            return f"part {told['lost']} was lost: {told.get('reason', '')}"
        return ""

    def _end_asked(self, problem: str) -> None:
        for answered in self._asked.values():
            if not answered.done():
                answered.set_exception(WorkerEndedError(self.index, problem or "it has ended"))
                answered.exception()  # whoever waits gets it; nobody else has missed it


class _Exit(asyncio.subprocess.SubprocessStreamProtocol):
    """Notes the end of the process itself: `Process.wait` waits for the ends of all of its pipes as well."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


def describe_exit(code: int) -> str:
    """How a process ended, in words."""
    return f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
