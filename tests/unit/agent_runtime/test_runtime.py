"""The daemon and its workers as processes, on a real server."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds
import pytest
from ecumene.client import EventFilter, EventType, World, connect

from agent_runtime.runtime import main, parse_arguments, read_settings
from tests.unit.agent_runtime.processes import Processes, end, read_line
from tests.unit.agent_runtime.stage import wait_until


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    started = Processes(tmp_path)
    yield started
    await started.end_all()


@pytest.fixture
async def server(processes: Processes) -> str:
    """Address of a server process."""
    return (await processes.start_server())[1]


async def play_round(world: World, agents: int) -> dict[str, Any]:
    """Open a round, wait for its gate, close it."""
    game = world.environment("/game")
    opened: Any = None
    async with world.watch_frames(EventFilter(path_prefix="/game", types=(EventType.GATE_OPENED,))) as watch:
        opened = await game.invoke("open_round", participants=agents)
        await asyncio.wait_for(anext(watch), 20)
    closed: Any = await game.invoke("close_round", generation=opened["generation"])
    return dict(closed)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_agents_of_two_workers_play_rounds_and_are_recorded(
    tmp_path: Path, server: str, processes: Processes
) -> None:
    async with connect(server, create=True) as world:
        await world.environment("/game").register(kind="guess_game")
        process = await processes.start_runtime(server)
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


def test_without_a_server_it_is_the_one_of_all_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ECUMENE_SERVER", raising=False)
    assert parse_arguments(["--name", "a"]).server == "127.0.0.1:7170"
    monkeypatch.setenv("ECUMENE_SERVER", "10.0.0.1:7171")
    assert parse_arguments([]).server == "10.0.0.1:7171"
    assert parse_arguments(["--server", "10.0.0.2:7172"]).server == "10.0.0.2:7172"
    with pytest.raises(SystemExit):
        parse_arguments(["--server", "10.0.0.2"])
    assert "'10.0.0.2' is no address of a server" in capsys.readouterr().err


def test_a_scratch_folder_counts_from_where_a_node_was_started() -> None:
    scratch = read_settings(parse_arguments(["--name", "a", "--scratch", "here"])).scratch
    assert scratch.is_absolute() and scratch.parent == Path.cwd() / "here"


async def test_a_killed_daemon_leaves_no_orphan(tmp_path: Path, server: str, processes: Processes) -> None:
    async with connect(server, create=True):
        process = await processes.start_runtime(server)
        workers = (await read_line(process))["workers"]
        process.kill()
        await process.wait()
        await wait_until(lambda: all(map(is_gone, workers)), 15)


async def test_a_worker_that_dies_ends_the_runtime_with_a_reason(
    tmp_path: Path, server: str, processes: Processes
) -> None:
    async with connect(server, create=True):
        process = await processes.start_runtime(server)
        workers = (await read_line(process))["workers"]
        os.kill(workers[1], signal.SIGKILL)
        (told,), errors = await end(process)
    assert process.returncode == 1
    assert (told["state"], told["reason"]) == ("failed", "worker 1: killed by signal 9")
    assert errors.strip() == "ecumene runtime: worker 1: killed by signal 9"
    assert all(map(is_gone, workers))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_cancels_turns_and_keeps_their_records(
    tmp_path: Path, server: str, processes: Processes, number: signal.Signals
) -> None:
    async with connect(server, create=True) as world:
        await world.environment("/game").register(kind="guess_game")
        thinking = {"kind": "uniform", "low_ms": 0, "high_ms": 60_000}
        process = await processes.start_runtime(server, agents=300, workers=1, thinking=thinking)
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


async def test_a_world_that_is_not_there_is_one_line_and_exit_code_1(server: str, processes: Processes) -> None:
    process = await processes.start_runtime(server, world="nowhere")
    (told,), errors = await end(process)
    assert process.returncode == 1
    assert told["state"] == "failed"
    assert len(errors.strip().splitlines()) == 1
    assert "nowhere" in errors


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("agents", "kills", "high_ms"), [(3000, 2, 3000), pytest.param(20_000, 50, 90_000, marks=pytest.mark.long)]
)
async def test_a_round_outlives_kills_of_the_server_with_every_report_counted_once(
    tmp_path: Path, processes: Processes, agents: int, kills: int, high_ms: int
) -> None:
    server, address = await processes.start_server()
    async with connect(address, create=True) as world:
        game = world.environment("/game")
        await game.register(kind="guess_game")
        thinking = {"kind": "uniform", "low_ms": 0, "high_ms": high_ms}
        runtime = await processes.start_runtime(
            address, agents=agents, agent="random", parameters={}, thinking=thinking
        )
        await read_line(runtime)
        reports = EventFilter(path_prefix="/game/reports", types=(EventType.ENTRY_SET, EventType.GATE_OPENED))
        opened: Any = None
        seen, kill_at = 0, [agents * (number + 1) // (2 * kills) for number in range(kills)]
        async with world.watch_frames(reports) as watch:
            opened = await game.invoke("open_round", participants=agents)
            async for batch in watch:
                seen += batch.types.count(EventType.ENTRY_SET)
                if EventType.GATE_OPENED in batch.types:
                    break
                if kill_at and seen >= kill_at[0]:
                    del kill_at[0]
                    server.kill()
                    await server.wait()
                    server, _ = await processes.start_server(int(address.rpartition(":")[2]))
        assert seen == agents
        # On a slow machine everybody may have thought before the server is up again.
        assert len(kill_at) < kills
        closed: Any = await game.invoke("close_round", generation=opened["generation"])
        stored = {entry.key: entry.value async for entry in world.environment("/game/reports").entries()}
        # A runtime that is told to stop while it looks for a server that is up again leaves the rest to its next life.
        turns = tmp_path / "rec" / "turns"
        await wait_until(lambda: turns.exists() and ds.dataset(turns).count_rows() == agents, timeout_s=60)
        runtime.terminate()
        (told,), _ = await end(runtime)
    assert told["turns"] == {"ok": agents}
    recorded = {
        row["agent"]: row["value_double"] for row in ds.dataset(tmp_path / "rec/actions").to_table().to_pylist()
    }
    assert recorded == stored
    assert (closed["reported"], closed["failed"]) == (agents, 0)
    assert closed["mean"] == pytest.approx(math.fsum(recorded.values()) / agents, abs=1e-12)


def test_a_description_that_cannot_run_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["--server", "127.0.0.1:1", "--spec", str(tmp_path / "none.json")])
    assert code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


async def test_agents_with_processes_of_their_own_play_as_the_others(server: str, processes: Processes) -> None:
    async with connect(server, create=True) as world:
        await world.environment("/game").register(kind="guess_game")
        process = await processes.start_runtime(server, agents=3, process="agent")
        ready = await read_line(process)
        assert (ready["agents"], len(ready["workers"])) == (3, 3)
        assert (await play_round(world, 3))["reported"] == 3
        process.send_signal(signal.SIGTERM)
        (told,), _ = await end(process)
    assert told["turns"] == {"ok": 3}
