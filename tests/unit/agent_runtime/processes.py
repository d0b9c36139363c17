"""A server and runtimes as processes, for tests of the runtime as a whole."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.unit.agent_runtime.stage import WAKE, write_agents

READY_TIMEOUT_S = 40


async def read_line(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """The next JSON line of a process."""
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), READY_TIMEOUT_S)
    told: dict[str, Any] = json.loads(line)
    return told


async def end(process: asyncio.subprocess.Process) -> tuple[list[dict[str, Any]], str]:
    """What else a process says until it ends: lines of stdout, and stderr."""
    out, errors = await asyncio.wait_for(process.communicate(), 30)
    return [json.loads(line) for line in out.splitlines()], errors.decode()


class Processes:
    """Starts processes, and kills at the end what a failed test leaves."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[asyncio.subprocess.Process] = []

    async def start_server(self, port: int = 0) -> tuple[asyncio.subprocess.Process, str]:
        """A server on the folder's data, and its address."""
        data = str(self._folder / "data")
        process = await self._start("env_server.server", "--data-dir", data, "--port", str(port))
        return process, (await read_line(process))["address"]

    async def start_runtime(
        self, address: str, *, agents: int = 20, workers: int = 2, world: str = "main", **group: Any
    ) -> asyncio.subprocess.Process:
        """A daemon with one group of agents, `agent-0` and so on; records into the folder's `rec`."""
        ids = [f"agent-{number}" for number in range(agents)]
        spec = {"name": "g", "agent": "level-k", "parameters": {"level": 1}, "wake": list(WAKE), **group}
        spec["agents"] = str(write_agents(self._folder / "agents.arrow", ids))
        launch = {"run": "r", "workers": workers, "recording": "rec", "groups": [spec], "worker": {"stop_timeout_s": 3}}
        path = self._folder / "launch.json"
        path.write_text(json.dumps(launch), encoding="utf-8")
        return await self._start("ecumene.cli", "runtime", "--server", address, "--world", world, "--spec", str(path))

    async def end_all(self) -> None:
        """Kill what still runs."""
        for process in self._started:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def _start(self, module: str, *arguments: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        self._started.append(process)
        return process
