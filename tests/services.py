"""Real servers for tests: started as processes, known by their readiness line, ended by their pid.

with ServerProcess(directory) as server:      port 0, then the same port at every restart
    server.kill(); server.start()
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.forked_servers import ForkedServer, start_forked

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
ROOT = Path(__file__).resolve().parents[1]


class NotReadyError(AssertionError):
    """The server ended, or said nothing, before it was ready."""

    def __init__(self, exit_code: int | None, log: str) -> None:
        super().__init__(f"not ready (exit code {exit_code}): {log[-2000:]}")
        self.exit_code = exit_code
        self.log = log


class ServerProcess:
    """One server on one directory, over any number of lives."""

    def __init__(self, directory: Path, *arguments: str, port: int = 0) -> None:
        self.directory = directory
        self.arguments = arguments
        self.port = port
        self.log_path = directory.parent / f"{directory.name}.log"
        self._process: ForkedServer | subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the living process."""
        return self._living().pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs; it may have ended by itself."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Starts it and returns when it is ready.

        Raises:
            NotReadyError: it did not become ready.
        """
        assert self._process is None, "it runs already"
        arguments = ["--data-dir", str(self.directory), "--port", str(self.port), *self.arguments]
        command = [sys.executable, "-m", "env_server.server", *arguments]
        with self.log_path.open("ab") as log:
            self._process = start_forked(arguments, log.fileno()) or subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, cwd=ROOT
            )
        line = self._read_line()
        if not line:
            code = self._process.poll()
            self.kill()
            raise NotReadyError(code, self.log_path.read_text())
        ready = json.loads(line)
        self.port = int(ready["address"].rpartition(":")[2])
        assert ready["pid"] == self._process.pid
        return self

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._living().kill()
        self._forget()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self._living().terminate()
        return self._forget()

    def terminate(self) -> None:
        """SIGTERM, without waiting; `wait` follows."""
        self._living().terminate()

    def wait(self) -> int:
        """Waits for the end; returns the exit code."""
        return self._forget()

    def pause(self) -> None:
        """SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    def _living(self) -> ForkedServer | subprocess.Popen[bytes]:
        assert self._process is not None, "it does not run"
        return self._process

    def _read_line(self) -> bytes:
        process = self._living()
        assert process.stdout is not None
        line = b""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not line.endswith(b"\n") and time.monotonic() < deadline:
            if select.select([process.stdout], [], [], 0.5)[0]:
                part = os.read(process.stdout.fileno(), 4096)
                if not part:
                    process.wait(STOP_TIMEOUT_S)
                    return b""
                line += part
        return line

    def _forget(self) -> int:
        process = self._living()
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
            self._process = None
        return code
