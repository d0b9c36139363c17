"""A world with agents in worker processes, which a test kills, stops, and replaces."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ecumene
import psutil
from ecumene.client import EventFilter, EventType, World

from agent_runtime.launching.workers import plan_launch
from agent_runtime.model.parts import Part
from agent_runtime.one_launch import begin_launch
from agent_runtime.ownership.places import RunPlaces
from agent_runtime.settings import Launch, WorkerConfig, parse_launch
from agent_runtime.worker.commands import Command, Drop, Host, Inspect
from agent_runtime.worker.process import WorkerProcess
from tests.services import ServerProcess
from tests.unit.agent_runtime.stage import write_agents

AGENTS = "tests.faults.takeover_agents"
TICKS, REPORTS, COUNTS = "/ticks", "/reports", "/counts"
TTL_S = 2.0
ANSWER_S = 60.0
WAKE = [{"path": TICKS, "types": ["entry_set"]}]


def describe_launch(folder: Path, *, rule: int, objects: int, workers: int, **more: Any) -> dict[str, Any]:
    """Two groups: `rule` agents that echo, and `objects` that keep a diary; a turn takes up to 200 ms."""
    latency = {"kind": "uniform", "high_ms": 200}
    groups = {
        "rule": ([f"r-{number}" for number in range(rule)], {"agent": f"{AGENTS}:Echo", "thinking": latency}),
        "diary": ([f"d-{number}" for number in range(objects)], {"agent": f"{AGENTS}:Diarist", "model": "m"}),
    }
    return {
        "run": "r",
        "workers": workers,
        "models": {"m": {"provider": "scripted", "answers": f"{AGENTS}:answer_number", "latency": latency}},
        "worker": {"lease_ttl_s": TTL_S, "cursor_interval_s": 0.3, "stop_timeout_s": 5},
        "groups": [
            {"name": name, "agents": str(write_agents(folder / f"{name}.arrow", ids)), "wake": WAKE, **group}
            for name, (ids, group) in groups.items()
            if ids
        ],
        **more,
    }


class Ticker:
    """Wakes all agents, and knows from the world's log what they did."""

    def __init__(self, world: World, agents: Sequence[str]) -> None:
        self.world = world
        self.agents = agents
        self.ticks: dict[int, int] = {}
        """Revision of each tick -> its number."""

    async def prepare(self) -> None:
        """Make the places."""
        for path in (TICKS, REPORTS, COUNTS):
            await self.world.environment(path).register()

    async def tick(self) -> None:
        """Wake everybody once."""
        number = len(self.ticks) + 1
        ask = {"reports": REPORTS, "generation": 0, "round": number}
        done = await self.world.environment(TICKS).set("tick", ask)
        self.ticks[done.revision] = number

    async def wait_answers(self, timeout_s: float = 30.0) -> list[Any]:
        """Until every agent has answered every tick; returns the reports in order."""
        wanted = len(self.agents) * len(self.ticks)
        reports = []
        first = min(self.ticks)
        types = (EventType.ENTRY_SET,)
        try:
            async with asyncio.timeout(timeout_s):
                watch = self.world.watch(EventFilter(path_prefix=REPORTS, types=types), from_revision=first)
                async with watch:
                    while len(reports) < wanted:
                        reports.append(await anext(watch))
        except TimeoutError:
            done = {(event.producer, event.producer_seq) for event in reports}
            missing = [(agent, tick) for agent in self.agents for tick in self.ticks if (agent, tick) not in done]
            raise AssertionError(f"{len(missing)} turns had no effect: {missing[:5]}") from None
        return reports

    async def check_once(self) -> None:
        """Each agent has answered each tick, once, and its memory has grown by each answer."""
        reports = await self.wait_answers()
        # What would come too late to be counted above: nobody is at work any more.
        last = await self.world.environment(TICKS).delete("tick")
        page = [entry async for entry in self.world.environment(REPORTS).entries()]
        assert all(entry.modify_revision < last.revision for entry in page)
        done = Counter((event.producer, event.producer_seq) for event in reports)
        assert set(done.values()) == {1}, [key for key, count in done.items() if count > 1][:5]
        assert done.keys() == {(agent, revision) for agent in self.agents for revision in self.ticks}
        for event in reports:
            assert event.cause.startswith(f"{self.world.name}/{event.producer_seq}.")
            assert int(event.value) == self.ticks[event.producer_seq], event
        counts = {entry.key: entry.value async for entry in self.world.environment(COUNTS).entries()}
        diarists = [agent for agent in self.agents if agent.startswith("d-")]
        assert counts == dict.fromkeys(diarists, len(self.ticks))


class Fleet:
    """Workers of one launch, as a daemon would have them."""

    def __init__(self, server: ServerProcess, launch: Launch) -> None:
        self._server = server
        self.launch = launch
        self.parts: list[Part] = []
        self.workers: dict[int, WorkerProcess] = {}
        self.lost: list[tuple[int, str]] = []
        self.owners: dict[str, int] = {}
        """Part -> worker that hosts it, as far as was asked for."""

    async def begin(self, workers: int) -> None:
        """Begin the run, and start so many workers without parts."""
        address = self._server.address
        self.parts = await begin_launch(self.launch, address, "main", plan_launch(self.launch))
        for index in range(workers):
            await self.start(index)

    async def start(self, index: int) -> None:
        """Start a worker without parts, anew if it was there before."""
        config = WorkerConfig(server=self._server.address, world="main", index=index, launch=self.launch)

        def hear(line: dict[str, Any]) -> None:
            if "lost" in line:
                self.lost.append((index, line["lost"]))

        worker = await WorkerProcess.start(config, hear=hear)
        self.workers[index] = worker
        await worker.wait_ready()

    async def host(self, index: int, *parts: Part, wait_s: float = 0.0) -> None:
        """Let a worker take parts."""

        def host(part: Part) -> Callable[[int], Command]:
            return lambda number: Host(id=number, part=part, wait_s=wait_s)

        asked = [self.workers[index].ask(host(part), wait_s + ANSWER_S) for part in parts]
        await asyncio.gather(*asked)
        self.owners.update(dict.fromkeys((part.name for part in parts), index))

    async def drop(self, index: int, part: Part, drain_s: float = 0.0) -> None:
        """Let a worker give a part back."""
        await self.workers[index].ask(
            lambda number: Drop(id=number, part=part.name, drain_s=drain_s), drain_s + ANSWER_S
        )

    async def inspect(self, index: int) -> dict[str, Any]:
        """How the parts of a worker do, by name."""
        told = await self.workers[index].ask(lambda number: Inspect(id=number), ANSWER_S)
        parts: dict[str, Any] = told["parts"]
        return parts

    async def wait_load(self, index: int, ticker: Ticker) -> None:
        """Until turns of a worker's agents are under way, woken anew as often as they end before they are seen."""
        async with asyncio.timeout(ANSWER_S):
            while True:
                await ticker.tick()
                for _ in range(5):
                    if any(part["running"] for part in (await self.inspect(index)).values()):
                        return

    def hosted(self, index: int) -> list[Part]:
        """What a worker has."""
        return [part for part in self.parts if self.owners.get(part.name) == index]

    async def kill(self, index: int) -> None:
        """SIGKILL."""
        worker = self.workers.pop(index)
        os.kill(worker.pid, signal.SIGKILL)
        await asyncio.gather(worker.wait_ended(), return_exceptions=True)

    async def end(self) -> None:
        """Stop all, in order."""
        await asyncio.gather(*(worker.stop(5) for worker in self.workers.values()))


def make_launch(folder: Path, **more: Any) -> Launch:
    """A launch of two groups."""
    return parse_launch(describe_launch(folder, **more))


def open_world(server: ServerProcess) -> Any:
    """The world of the server."""
    return ecumene.connect(server.address)


async def free_parts(world: World) -> None:
    """Take its parts from a run whose owners are dead, as a node that knows that does, before their lease ends."""
    parts = world.environment(RunPlaces("r").parts)
    for part in [entry.key async for entry in parts.entries()]:
        await parts.delete(part)


class Runtime:
    """`ecumene runtime` as a process, with all its workers."""

    def __init__(self, folder: Path, launch: dict[str, Any], address: str) -> None:
        self._path = folder / "launch.json"
        self._launch = launch
        self._address = address
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, *, resume: bool = False, workers: int | None = None) -> dict[str, Any]:
        """Start it; returns what it says when it is ready, or why it is not."""
        changes = {"resume": resume, "workers": workers or self._launch["workers"]}
        self._path.write_text(json.dumps(self._launch | changes), encoding="utf-8")
        arguments = ("runtime", "--server", self._address, "--spec", str(self._path))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ecumene.cli", *arguments, stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None
        told: dict[str, Any] = json.loads(await asyncio.wait_for(self._process.stdout.readline(), 90))
        return told

    async def kill(self) -> None:
        """SIGKILL, all of it at once."""
        assert self._process is not None
        tree = psutil.Process(self._process.pid)
        for process in (*tree.children(recursive=True), tree):
            process.kill()
        await self._process.communicate()

    async def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self._process is not None
        self._process.terminate()
        return await self.wait()

    async def wait(self) -> int:
        """Until it has ended by itself; returns the exit code."""
        assert self._process is not None
        await self._process.communicate()
        return self._process.returncode or 0
