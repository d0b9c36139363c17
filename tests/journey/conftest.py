"""Real services for the stories told here: started as processes, stopped after each test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

STOP_TIMEOUT_S = 20


@dataclass
class RunningServer:
    """A server process, which may be killed and started again on its data."""

    data: Path
    port: int = 0
    process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start, on the port of the last time, and wait until it is ready."""
        command = [sys.executable, "-m", "env_server.server", "--data-dir", str(self.data), "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        ready = json.loads(self.process.stdout.readline())
        self.port = int(ready["address"].rpartition(":")[2])

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self.process is not None
        self.process.kill()
        self._forget()

    def stop(self) -> int:
        """End it in order; returns its exit code."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(STOP_TIMEOUT_S)
        return self._forget()

    def _forget(self) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.stdout.close()
        code = self.process.wait()
        self.process = None
        return code


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server with an empty data directory."""
    running = RunningServer(tmp_path / "data")
    running.start()
    yield running
    if running.process is not None:
        running.kill()
