"""One service in one subprocess: start, readiness, stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ecumene.launch.discovery import check_service
from ecumene.launch.errors import ServiceStartError, describe_exit

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
ORPHAN_GRACE_S = 10.0
LAST_LINE_CHARS_MAX = 300
_TAIL_BYTES = 16 * 1024


async def start_service(
    service: str,
    arguments: Sequence[str],
    *,
    log_path: Path | None = None,
    environment: Mapping[str, str] | None = None,
    start_timeout_s: float = START_TIMEOUT_S,
    orphan_grace_s: float = ORPHAN_GRACE_S,
    keep_open: Sequence[int] = (),
) -> ServiceProcess:
    """Start a service and wait until it says on stdout that it is ready.

    It does so in one line, a JSON object with `"ready": true` or `"state": "ready"`, kept as `ready`.

    Its stderr is appended to `log_path`, or kept until the service is gone. `environment` is added to this
    process's; descriptors in `keep_open` stay open in it as long as it lives. When this process is gone, it stops by
    itself, and is killed with all that it started after `orphan_grace_s`. The service leads a process group of
    its own, so that Ctrl-C reaches only the caller, who stops it in order. If the wait is cancelled the process is
    ended.

    Raises:
        ServiceMissingError: it is not installed.
        ServiceStartError: it ended, or was not ready in time (then it was killed).
        OSError: the log cannot be written, or no process can be made.
    """
    check_service(service)
    with contextlib.ExitStack() as held:
        errors = held.enter_context(_open_log(log_path))
        log_start = errors.tell()
        lifeline, _ = _make_pipe(held)
        output_here, output = _make_pipe(held)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ecumene.launch.child", str(lifeline.fileno()), str(orphan_grace_s), service),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            pass_fds=(lifeline.fileno(), *keep_open),
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        lifeline.close()
        output.close()
        started = ServiceProcess(service, process, held.pop_all(), errors, log_start)
    try:
        async with asyncio.timeout(start_timeout_s):
            await started.wait_until_ready(output_here)
    except BaseException as error:
        await started.kill()
        if isinstance(error, TimeoutError):
            problem = f"not ready after {start_timeout_s:g} s"
            raise ServiceStartError(service, problem, started.last_error_line()) from error
        raise
    return started


class ServiceProcess:
    """A running service. `ready` is what it said about itself when it became ready."""

    def __init__(
        self,
        service: str,
        process: asyncio.subprocess.Process,
        held: contextlib.ExitStack,
        errors: IO[bytes],
        log_start: int,
    ) -> None:
        self.service = service
        self.ready: dict[str, Any] = {}
        self._process = process
        self._held = held
        self._errors = errors
        self._log_start = log_start
        self._last_line = ""
        self._draining: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Process id, and id of its process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.returncode

    async def wait_until_ready(self, output: IO[bytes]) -> None:
        """Read its stdout up to the readiness line; lines before it are skipped, those after it dropped.

        Raises ServiceStartError if the process ends first.
        """
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, output)
        self._held.callback(transport.close)
        async for line in reader:
            self.ready = _parse_readiness(line)
            if self.ready:
                self._draining = asyncio.create_task(_drain(reader), name=f"drain stdout of {self.service}")
                return
        exit_code = await self._process.wait()
        raise ServiceStartError(self.service, describe_exit(exit_code), self.last_error_line(), exit_code)

    async def wait(self) -> int:
        """Wait until it has ended, for whatever reason; returns its exit code."""
        return await self._process.wait()

    async def stop(self, stop_timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask it to stop (SIGTERM), kill its process group if that takes too long; returns the exit code.

        Idempotent. Afterwards the process is gone and waited for, even if the caller is cancelled meanwhile.
        """
        if self._process.returncode is None:
            self._signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(stop_timeout_s):
                    await self._process.wait()
            except BaseException as error:
                await self.kill()
                if not isinstance(error, TimeoutError):
                    raise
        return await self._release()

    async def kill(self) -> int:
        """End it now, with all processes of its group; returns the exit code."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            await self._process.wait()
        return await self._release()

    def last_error_line(self) -> str:
        """The last line that it wrote to stderr since this start; "" if there is none."""
        if not self._errors.closed:
            self._last_line = _read_last_line(self._errors, self._log_start)
        return self._last_line

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _release(self) -> int:
        """Let go of everything that was held for a process that is gone."""
        assert self._process.returncode is not None
        if self._draining is not None:
            self._draining.cancel()
            await asyncio.gather(self._draining, return_exceptions=True)
            self._draining = None
        self.last_error_line()
        self._held.close()
        return self._process.returncode


async def _drain(output: asyncio.StreamReader) -> None:
    """Read and drop: a full pipe would stop the service."""
    while await output.read(65_536):
        pass


def _make_pipe(held: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """A pipe's read and write end, inherited by no process unless it is handed over."""
    read_end, write_end = os.pipe()
    reader = held.enter_context(open(read_end, "rb", buffering=0))  # noqa: SIM115, PTH123
    return reader, held.enter_context(open(write_end, "wb", buffering=0))  # noqa: PTH123


def _open_log(log_path: Path | None) -> IO[bytes]:
    if log_path is None:
        return tempfile.TemporaryFile("w+b")
    log_path.parent.mkdir(parents=True, exist_ok=True)
    log = log_path.open("a+b")
    log.seek(0, os.SEEK_END)
    return log


def _parse_readiness(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except ValueError:
        return {}
    is_ready = isinstance(document, dict) and (document.get("ready") is True or document.get("state") == "ready")
    return document if is_ready else {}


def _read_last_line(log: IO[bytes], start: int) -> str:
    # pread: the child writes through the same open file, whose offset must not move.
    descriptor = log.fileno()
    end = os.fstat(descriptor).st_size
    begin = max(start, end - _TAIL_BYTES)
    text = os.pread(descriptor, max(0, end - begin), begin).decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:LAST_LINE_CHARS_MAX] if lines else ""
