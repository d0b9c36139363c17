"""The daemon and its workers as processes, on a real server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds
import pytest
from ecumene.client import EventFilter, EventType, World, connect

from agent_runtime.runtime import main
from tests.unit.agent_runtime.stage import WAKE, wait_until, write_agents

READY_TIMEOUT_S = 40


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[str]:
    """A server process; its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "env_server.server", "--data-dir", str(tmp_path / "data"), "--port", "0",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield (await read_line(process))["address"]
    finally:
        process.terminate()
        await process.wait()


async def read_line(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), READY_TIMEOUT_S)
    told: dict[str, Any] = json.loads(line)
    return told


StartRuntime = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture
async def start_runtime(tmp_path: Path) -> AsyncIterator[StartRuntime]:
    """Starts daemons, with a launch of one group; kills those that a failed test leaves."""
    started: list[asyncio.subprocess.Process] = []

    async def start(
        address: str, *, agents: int = 20, workers: int = 2, world: str = "main", **group: Any
    ) -> asyncio.subprocess.Process:
        ids = [f"agent-{number}" for number in range(agents)]
        spec = {"name": "g", "agent": "level-k", "parameters": {"level": 1}, "wake": list(WAKE), **group}
        spec["agents"] = str(write_agents(tmp_path / "agents.arrow", ids))
        launch = {"run": "r", "workers": workers, "recording": "rec", "groups": [spec], "worker": {"stop_timeout_s": 3}}
        (tmp_path / "launch.json").write_text(json.dumps(launch), encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ecumene.cli", "runtime",
            "--server", address, "--world", world, "--spec", str(tmp_path / "launch.json"),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def play_round(world: World, agents: int) -> dict[str, Any]:
    """Open a round, wait for its gate, close it."""
    game = world.environment("/game")
    opened: Any = None
    async with world.watch_frames(EventFilter(path_prefix="/game", types=(EventType.GATE_OPENED,))) as watch:
        opened = await game.invoke("open_round", participants=agents)
        await asyncio.wait_for(anext(watch), 20)
    closed: Any = await game.invoke("close_round", generation=opened["generation"])
    return dict(closed)


async def end(process: asyncio.subprocess.Process) -> tuple[list[dict[str, Any]], str]:
    """What else it says until it ends: lines of stdout, and stderr."""
    out, errors = await asyncio.wait_for(process.communicate(), 30)
    return [json.loads(line) for line in out.splitlines()], errors.decode()


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_agents_of_two_workers_play_rounds_and_are_recorded(
    tmp_path: Path, server: str, start_runtime: StartRuntime
) -> None:
    async with connect(server, create=True) as world:
        await world.environment("/game").register(kind="guess_game")
        process = await start_runtime(server)
        ready = await read_line(process)
        assert (ready["state"], ready["agents"], len(ready["workers"])) == ("ready", 20, 2)
        first = await play_round(world, 20)
        second = await play_round(world, 20)
        process.send_signal(signal.SIGTERM)
        (told,), _ = await end(process)
    assert first["mean"] == pytest.approx(50 * 2 / 3, abs=1e-9)
    assert second["mean"] == pytest.approx(50 * (2 / 3) ** 2, abs=1e-9)
    assert process.returncode == 0
    assert (told["state"], told["turns"], told["actions"]) == ("ended", {"ok": 40}, 40)
    assert told["cpu_s"] > 0 and told["rss_anon_bytes"] > 0
    turns = ds.dataset(tmp_path / "rec" / "turns").to_table().to_pylist()
    assert {(row["agent"], row["turn"]) for row in turns} == {(f"agent-{n}", t) for n in range(20) for t in (1, 2)}


async def test_a_killed_daemon_leaves_no_orphan(tmp_path: Path, server: str, start_runtime: StartRuntime) -> None:
    async with connect(server, create=True):
        process = await start_runtime(server)
        workers = (await read_line(process))["workers"]
        process.kill()
        await process.wait()
        await wait_until(lambda: all(map(is_gone, workers)), 15)


async def test_a_worker_that_dies_ends_the_runtime_with_a_reason(
    tmp_path: Path, server: str, start_runtime: StartRuntime
) -> None:
    async with connect(server, create=True):
        process = await start_runtime(server)
        workers = (await read_line(process))["workers"]
        os.kill(workers[1], signal.SIGKILL)
        (told,), errors = await end(process)
    assert process.returncode == 1
    assert (told["state"], told["reason"]) == ("failed", "worker 1: killed by signal 9")
    assert errors.strip() == "ecumene runtime: worker 1: killed by signal 9"
    assert all(map(is_gone, workers))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_cancels_turns_and_keeps_their_records(
    tmp_path: Path, server: str, start_runtime: StartRuntime, number: signal.Signals
) -> None:
    async with connect(server, create=True) as world:
        await world.environment("/game").register(kind="guess_game")
        thinking = {"kind": "uniform", "low_ms": 0, "high_ms": 60_000}
        process = await start_runtime(server, agents=300, workers=1, thinking=thinking)
        await read_line(process)
        async with world.watch_frames(EventFilter(path_prefix="/game/reports", types=(EventType.ENTRY_SET,))) as watch:
            await world.environment("/game").invoke("open_round", participants=300)
            # All begin to think together, so when the quickest has reported, the others think.
            await asyncio.wait_for(anext(watch), 20)
        process.send_signal(number)
        (told,), _ = await end(process)
    assert process.returncode == 0
    assert told["turns"].keys() == {"ok", "cancelled"}
    assert sum(told["turns"].values()) == 300 and told["turns"]["cancelled"] > 200
    assert ds.dataset(tmp_path / "rec" / "turns").count_rows() == 300


async def test_a_world_that_is_not_there_is_one_line_and_exit_code_1(server: str, start_runtime: StartRuntime) -> None:
    process = await start_runtime(server, world="nowhere")
    (told,), errors = await end(process)
    assert process.returncode == 1
    assert told["state"] == "failed"
    assert len(errors.strip().splitlines()) == 1
    assert "nowhere" in errors


def test_a_description_that_cannot_run_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--server", "127.0.0.1:1", "--spec", str(tmp_path / "none.json")])
    assert code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
