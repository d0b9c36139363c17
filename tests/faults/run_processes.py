"""`ecumene run` and `ecumene resume` as processes, which a test kills with all that they started."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds
from ecumene.client import EventFilter, connect
from ecumene.client.records import RunDigest, digest_entries, digest_state, digest_turns

from tests.services import ServerProcess

WORLD = "main"


def write_spec(folder: Path, *, rule: int, prompted: int, rounds: int, **more: Any) -> Path:
    """A game of rule agents and of prompted ones on a scripted model that thinks; JSON is YAML."""
    groups = [
        {"name": "rule", "agent": "noisy-level-k", "count": rule, "parameters": {"level": 1, "deviation": 4}},
        {"name": "asked", "agent": "prompted", "count": prompted},
    ]
    model = {"provider": "scripted", "max_tokens": 64, "latency": {"kind": "uniform", "high_ms": 150}}
    spec = {
        "name": "killed",
        "seed": 5,
        "population": {"groups": groups},
        "game": {"rounds": rounds, "deadline_s": 300},
        "model": model,
        "recording": {"directory": str(folder / "runs")},
    }
    path = folder / "spec.yaml"
    path.write_text(json.dumps(spec | more), encoding="utf-8")
    return path


class RunProcess:
    """One life of a run."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._lines: list[str] = []
        self._told = asyncio.Condition()
        self._has_ended = False
        self._reading = asyncio.create_task(self._read(), name="read what a run says")

    @classmethod
    async def start(cls, *arguments: str) -> RunProcess:
        """A command of `ecumene`."""
        command = (sys.executable, "-m", "ecumene.cli", *arguments)
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
            )
        )

    @property
    def pid(self) -> int:
        """Of the command itself."""
        return self._process.pid

    @property
    def errors(self) -> str:
        """What it has said on stderr."""
        return "".join(self._lines)

    async def wait_line(self, beginning: str) -> bool:
        """Until it has said a line on stderr that begins so; False if it has ended without it."""
        async with self._told:
            await self._told.wait_for(lambda: self._has_said(beginning) or self._has_ended)
        return self._has_said(beginning)

    async def wait(self, timeout_s: float = 120.0) -> int:
        """Until it has ended; returns its exit code."""
        await asyncio.wait_for(asyncio.shield(self._reading), timeout_s)
        assert self._process.returncode is not None
        return self._process.returncode

    def signal(self, number: int) -> None:
        """Send a signal to the command alone."""
        self._process.send_signal(number)

    async def kill(self, *, alone: bool = False) -> None:
        """SIGKILL, of all of its processes at once, or of the command alone."""
        if self._process.returncode is None:
            tree = psutil.Process(self.pid)
            for process in (*([] if alone else tree.children(recursive=True)), tree):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        await self._reading

    def _has_said(self, beginning: str) -> bool:
        return any(line.startswith(beginning) for line in self._lines)

    async def _read(self) -> None:
        assert self._process.stderr is not None
        while line := (await self._process.stderr.readline()).decode():
            async with self._told:
                self._lines.append(line)
                self._told.notify_all()
        await self._process.wait()
        async with self._told:
            self._has_ended = True
            self._told.notify_all()


def find_run(folder: Path) -> Path:
    """The directory of the one run below a folder."""
    (directory,) = (folder / "runs").iterdir()
    return directory


async def count_events(address: str, count: int, running: RunProcess) -> bool:
    """Until so many more events of any kind happened in the world; False if the run has ended before."""

    async def count_here() -> None:
        async with connect(address, WORLD) as world, world.watch(EventFilter()) as watch:
            for _ in range(count):
                await anext(watch)

    counting = asyncio.create_task(count_here(), name="count events")
    ending = asyncio.create_task(running.wait(), name="run")
    try:
        await asyncio.wait({counting, ending}, return_when=asyncio.FIRST_COMPLETED)
        return counting.done() and not ending.done()
    finally:
        for task in (counting, ending):
            task.cancel()
        await asyncio.gather(counting, ending, return_exceptions=True)


async def digest_run(directory: Path, address: str, world: str) -> RunDigest:
    """The digest of a run that has ended, from its records and its world."""
    async with connect(address, world) as opened:
        rolled = await digest_entries(opened, [("/game", "round"), ("/game/reports", "agent-000001")])
        return RunDigest(digest_turns(directory), await digest_state(opened), rolled)


async def digest_own_world(directory: Path) -> RunDigest:
    """Likewise of a run that had a server of its own."""
    with ServerProcess(directory / "world") as server:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        return await digest_run(directory, server.address, manifest["world"])


def read_rows(directory: Path, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Recorded rows."""
    rows: list[dict[str, Any]] = ds.dataset(directory / table).to_table(columns=list(columns)).to_pylist()
    return rows
