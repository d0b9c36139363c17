"""Speaks the words between a daemon and its workers, without agents; run as a process in place of a worker.

It owns parts as a worker does: by entries under a lease of its own. `mood` among a group's parameters: misbehaviour.

    dies      ends with exit code 3 when it has hosted a part of the group
    refuses   cannot host parts of the group
    prints    prints a line that is not for the daemon
    hangs     never answers about an agent of the group
    stumbles  cannot host a part of the group the first two times, for a reason that may pass
    waits     cannot host parts of the group before there is a file `until`, for a reason that does not pass
    forgets   says that a part of the group is lost, once, right behind the answer that it is hosted
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from ecumene.client import EntryExistsError, EntryNotFoundError, Lease, World, connect
from ecumene.lifeline import die_with

from agent_runtime.model.parts import Part
from agent_runtime.settings import WorkerConfig
from agent_runtime.worker.commands import COMMANDS, AskAgent, Decide, Drop, Host, Inspect, Mute, Seat

LEASE_TTL_S = 2.0


class FakeWorker:
    """Hosts parts in name only."""

    def __init__(self, config: WorkerConfig, world: World, lease: Lease) -> None:
        self.config = config
        self.lease = lease
        self.place = world.environment(f"/runtime/runs/{config.launch.run}/parts")
        self.parts: dict[str, tuple[Part, int]] = {}
        self.muted: set[str] = set()
        self.seated: dict[str, int] = {}
        self.hosted: dict[str, int] = {}

    async def do(self, command: Any) -> dict[str, Any]:
        if isinstance(command, Host):
            return await self.host(command)
        if isinstance(command, Drop):
            await self.drop(command.part)
            return {"through": 7}
        if isinstance(command, Inspect):
            parts = {
                name: {"term": term, "through": 8, "agents": part.end - part.first}
                for name, (part, term) in self.parts.items()
            }
            return {"parts": parts, "usage": {"cpu_s": 0.5, "rss_anon_bytes": 1000, "pid": os.getpid()}}
        group = self.find_group(command.agent)
        if self.mood(group) == "hangs":
            await asyncio.get_running_loop().create_future()
        if isinstance(command, AskAgent):
            value = {"mood": 7} if command.answer_schema else None
            text = f"{command.agent} heard: {command.question}"
            muted = command.agent in self.muted
            return {
                "status": "rule" if muted else "ok",
                "text": text,
                "value": value,
                "hash_before": "a",
                "hash_after": "a",
            }
        if isinstance(command, Mute):
            (self.muted.add if command.muted else self.muted.discard)(command.agent)
            return {}
        if isinstance(command, Seat):
            return self.seat(command)
        assert isinstance(command, Decide)
        if self.seated.get(command.agent) != command.turn:
            raise ValueError(f"no turn {command.turn} of {command.agent} waits")
        say({"seat": command.agent, "turn": command.turn, "status": "ok", "reason": json.dumps(command.report)})
        return {}

    async def host(self, command: Host) -> dict[str, Any]:
        part, mood = command.part, self.mood(command.part.group)
        times = self.hosted[part.name] = self.hosted.get(part.name, 0) + 1
        if mood == "refuses" or (mood == "waits" and not self.find_until(part.group).exists()):
            raise ValueError("not today")
        if mood == "stumbles" and times <= 2:
            raise OSError("not now")
        self.muted |= set(command.muted)
        deadline_s = time.monotonic() + command.wait_s
        while True:
            try:
                done = await self.place.create(part.name, {"pid": os.getpid()}, lease_id=self.lease.id)
                break
            except EntryExistsError:
                if time.monotonic() > deadline_s:
                    raise ValueError(f"part {part.name} is held by another worker") from None
                await asyncio.sleep(0.1)
        self.parts[part.name] = (part, done.revision)
        if mood == "forgets" and times == 1:
            await self.drop(part.name)
            asyncio.get_running_loop().call_soon(say, {"lost": part.name, "reason": "forgotten"})
        if self.mood(part.group) == "dies":
            asyncio.get_running_loop().call_later(0.05, os._exit, 3)
        if self.mood(part.group) == "prints":
            print("what agents' code prints", flush=True)
            print("and to stderr", file=sys.stderr, flush=True)
        return {"agents": part.end - part.first, "term": done.revision, "through": 5}

    async def drop(self, name: str) -> None:
        _, term = self.parts.pop(name)
        try:
            await self.place.delete(name, created_revision=term)
        except EntryNotFoundError:
            pass

    def seat(self, command: Seat) -> dict[str, Any]:
        if not command.seated:
            self.seated.pop(command.agent, None)
            return {}
        self.seated[command.agent] = 1
        turn = {"seat": command.agent, "turn": 1, "revision": 9, "asks_report": True, "timeout_ms": 500}
        asyncio.get_running_loop().call_later(0.05, say, {**turn, "events": [{"key": "round.opened"}]})
        return {"group": self.find_group(command.agent), "profile": {"age": 3}}

    def find_group(self, agent: str) -> str:
        from agent_runtime.agents.cohort import AGENT_ID, open_agents  # a third of the start, for few of those started

        for part, _ in self.parts.values():
            spec = next(group for group in self.config.launch.groups if group.name == part.group)
            ids = open_agents(spec.agents, (part.first, part.end)).column(AGENT_ID).to_pylist()
            if agent in ids:
                return part.group
        raise ValueError(f"no agent {agent!r} lives here")

    def find_until(self, group: str) -> Path:
        spec = next(one for one in self.config.launch.groups if one.name == group)
        return Path(spec.parameters["until"])

    def mood(self, group: str) -> Any:
        spec = next(one for one in self.config.launch.groups if one.name == group)
        return spec.parameters.get("mood")


def say(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)


async def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "--die-with" in sys.argv:
        die_with(int(sys.argv[sys.argv.index("--die-with") + 1]))
    reader = asyncio.StreamReader(limit=4 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    config = WorkerConfig.model_validate_json(await reader.readline())
    async with connect(config.server, config.world) as world:
        lease = await world.lease(LEASE_TTL_S, on_lost=lambda _: lose(worker))
        worker = FakeWorker(config, world, lease)
        say({"worker": config.index, "state": "ready", "agents": 0, "pid": os.getpid(), "revision": world.revision})
        doing: set[asyncio.Task[None]] = set()
        async for line in reader:
            task = asyncio.create_task(answer(worker, line), name="answer")
            doing.add(task)
            task.add_done_callback(doing.discard)
        for task in doing:
            task.cancel()
        for name in list(worker.parts):
            await worker.drop(name)
        await lease.revoke()
    say({"worker": config.index, "state": "ended"})


async def answer(worker: FakeWorker, line: bytes) -> None:
    command = COMMANDS.validate_json(line)
    try:
        say({"answer": command.id, **(await worker.do(command))})
    except ValueError as error:
        say({"answer": command.id, "error": str(error)})
    except OSError as error:
        say({"answer": command.id, "error": str(error), "may_pass": True})


def lose(worker: FakeWorker) -> None:
    for name in list(worker.parts):
        del worker.parts[name]
        say({"lost": name, "reason": "the lease ended"})
    os._exit(4)


if __name__ == "__main__":
    asyncio.run(main())
