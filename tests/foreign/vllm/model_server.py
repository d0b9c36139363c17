"""vllm's own server as a process on loopback."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.foreign.vllm.builds import Build
from tests.foreign.vllm.engine_processes import find_engines, kill

READY_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 30.0


class ModelServer:
    """One model over HTTP; started again, it keeps its port."""

    def __init__(self, build: Build, model: str, log: Path, **arguments: Any) -> None:
        """`model` is the name of a folder, and what the server calls it."""
        self.model = model
        self.port = find_free_port()
        self.log = log
        self._command = [
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", build.model(model)),
            *("--served-model-name", model, "--host", "127.0.0.1", "--port", str(self.port)),
            *write_options({**build.arguments, **arguments}),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        """For a provider `openai`."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def is_alive(self) -> bool:
        """Whether the server runs; one whose engine died ends itself."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Returns when it answers; raises AssertionError if it does not come to it."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while not self._is_healthy():
            assert self.is_alive, self.log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < deadline_s, f"not ready within {READY_TIMEOUT_S:g} s"
            time.sleep(0.2)
        return self

    def kill_engine(self) -> None:
        """SIGKILL of the process that computes."""
        assert self._process is not None
        (engine,) = find_engines(self._process.pid)
        kill(engine)

    def stop(self) -> None:
        """Ends it and its engine. May have ended before."""
        process, self._process = self._process, None
        if process is None:
            return
        engines = find_engines(process.pid) if process.poll() is None else set()
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for engine in engines:
            if engine.is_running():
                kill(engine)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def write_options(arguments: Mapping[str, Any]) -> Iterator[str]:
    """An engine's arguments as the server's command line has them."""
    for name, value in arguments.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
        else:
            yield f"--{option}"
            yield json.dumps(value) if isinstance(value, dict) else str(value)


def find_free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
