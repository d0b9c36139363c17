"""Nodes and workers that are killed or stand still: nobody is left behind, nobody runs twice, the run goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from ecumene.client import EventFilter, EventType, World, connect
from ecumene.client.runtime_model import NodeInfo, PartCondition
from ecumene.client.runtime_nodes import RuntimeNode
from ecumene.launch.node_runs import GroupAgents, inspect_nodes, launch_run

from tests.services import ServerProcess
from tests.unit.agent_runtime.nodes import describe_run, dump_agents, name_agents

AGENTS = 40
TAKEOVER_S = 30.0
WORKER_LEASE_S = 1.0


class NodeProcess:
    """A node with real workers, over any number of lives."""

    def __init__(self, server: str, name: str, folder: Path) -> None:
        command = [sys.executable, "-m", "ecumene.cli", "runtime", "--server", server, "--name", name, "--workers", "2"]
        self.name = name
        self._log = (folder / f"{name}.log").open("ab")
        self._process = subprocess.Popen(
            [*command, "--scratch", str(folder)], stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self._process.stdout is not None
        self.address = json.loads(self._process.stdout.readline())["address"]
        self.pid = self._process.pid

    def list_workers(self) -> list[int]:
        return [child.pid for child in psutil.Process(self.pid).children(recursive=True)]

    def send(self, number: signal.Signals, *, workers: bool = False) -> None:
        """A signal to the daemon, and to its workers as well."""
        pids = [*self.list_workers(), self.pid] if workers else [self.pid]
        for pid in pids:
            os.kill(pid, number)

    def end(self) -> int:
        """Wait for its end; what has to be killed for it is."""
        try:
            code = self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL, workers=True)
            code = self._process.wait(20)
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._log.close()
        return code


@asynccontextmanager
async def open_nodes(folder: Path, *names: str) -> AsyncIterator[tuple[World, dict[str, NodeProcess]]]:
    """A server, nodes, and a run of level-k agents over them."""
    with ServerProcess(folder / "data") as server:
        started = {name: NodeProcess(server.address, name, folder) for name in names}
        try:
            async with connect(server.address) as world:
                await world.environment("/game").register(kind="guess_game")
                document = describe_run(parts=4)
                document["worker"] = {"stop_timeout_s": 2, "lease_ttl_s": WORKER_LEASE_S}
                stream = b"".join(dump_agents(name_agents(AGENTS)))
                await launch_run(world, document, {"g": GroupAgents(AGENTS, stream)})
                yield world, started
        finally:
            for node in started.values():
                if psutil.pid_exists(node.pid) and psutil.Process(node.pid).status() != psutil.STATUS_ZOMBIE:
                    node.send(signal.SIGCONT, workers=True)
                    node.send(signal.SIGTERM)
                node.end()


async def play_round(world: World) -> int:
    """One round; how many reported a number."""
    game = world.environment("/game")
    async with world.watch_frames(EventFilter(path_prefix="/game", types=(EventType.GATE_OPENED,))) as watch:
        opened: Any = await game.invoke("open_round", participants=AGENTS)
        await asyncio.wait_for(anext(watch), 30)
    closed: Any = await game.invoke("close_round", generation=opened["generation"])
    return int(closed["reported"])


def count_live(info: NodeInfo) -> int:
    """Agents that are live on a node."""
    parts = [part for run in info.runs for part in run.parts]
    return sum(len(part.span) for part in parts if part.condition is PartCondition.LIVE)


async def wait_hosted(world: World, **agents: int) -> None:
    """Until nodes host so many agents, all live in workers that run."""

    async def holds() -> bool:
        infos = {info.name: info for info in await inspect_nodes(world)}
        run = [worker for info in infos.values() for one in info.runs for worker in one.workers]
        return {name: count_live(infos[name]) for name in infos} == agents and all(worker.pid for worker in run)

    await wait_for(holds, TAKEOVER_S)


async def wait_for(holds: Callable[[], Awaitable[bool]], timeout_s: float) -> None:
    async with asyncio.timeout(timeout_s):
        while not await holds():  # noqa: ASYNC110 - what is waited for is another process's
            await asyncio.sleep(0.05)


async def wait_gone(pids: list[int], timeout_s: float = 5.0) -> None:
    """Until processes are gone."""

    async def holds() -> bool:
        return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)

    await wait_for(holds, timeout_s)


@pytest.mark.timeout(180)
async def test_a_killed_daemon_leaves_no_process_and_another_node_goes_on(tmp_path: Path) -> None:
    async with open_nodes(tmp_path, "a", "b") as (world, nodes):
        assert await play_round(world) == AGENTS
        workers = nodes["a"].list_workers()
        assert workers
        nodes["a"].send(signal.SIGKILL)
        await wait_gone(workers)
        await wait_hosted(world, b=AGENTS)
        assert await play_round(world) == AGENTS


@pytest.mark.timeout(180)
async def test_a_daemon_that_is_killed_takes_workers_along_that_stand_still(tmp_path: Path) -> None:
    async with open_nodes(tmp_path, "a") as (_, nodes):
        workers = nodes["a"].list_workers()
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        nodes["a"].send(signal.SIGKILL)
        await wait_gone(workers)


@pytest.mark.timeout(180)
async def test_killed_workers_are_started_again_and_lose_no_event(tmp_path: Path) -> None:
    async with open_nodes(tmp_path, "a") as (world, nodes):
        for _ in range(2):
            workers = nodes["a"].list_workers()
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
            # Opened while nobody lives: whoever hosts the agents next answers it.
            assert await play_round(world) == AGENTS
        await wait_hosted(world, a=AGENTS)


@pytest.mark.timeout(240)
async def test_a_node_that_stands_still_beyond_its_leases_has_lost_its_parts_when_it_goes_on(tmp_path: Path) -> None:
    async with open_nodes(tmp_path, "a", "b") as (world, nodes):
        nodes["a"].send(signal.SIGSTOP, workers=True)

        async def b_hosts_all() -> bool:
            async with RuntimeNode(nodes["b"].address) as node:
                return count_live(await node.inspect()) == AGENTS

        await wait_for(b_hosts_all, TAKEOVER_S)
        assert await play_round(world) == AGENTS
        nodes["a"].send(signal.SIGCONT, workers=True)
        await wait_hosted(world, a=0, b=AGENTS)
        assert await play_round(world) == AGENTS


@pytest.mark.timeout(180)
async def test_a_run_outlives_all_of_its_nodes(tmp_path: Path) -> None:
    async with open_nodes(tmp_path, "a") as (world, nodes):
        before = nodes["a"].list_workers()
        assert before
        nodes["a"].send(signal.SIGKILL)
        nodes["a"].end()
        await wait_gone(before)
        again = nodes["a"] = NodeProcess(world.session.address, "a", tmp_path)
        await wait_hosted(world, a=AGENTS)
        assert again.list_workers() and not set(before) & set(again.list_workers())
        assert await play_round(world) == AGENTS
