"""Nodes in this process, on a real server, with fake workers; and a bare client of their contract."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pyarrow as pa
from agent_api.v1 import runtime_service_pb2 as pb
from agent_api.v1 import runtime_service_pb2_grpc
from ecumene.client import connect

from agent_runtime.model.clock import Clock
from agent_runtime.node.logs import NodeLog
from agent_runtime.node.node import Node, open_node
from agent_runtime.node.settings import NodeSettings
from agent_runtime.rpc.service import serve
from tests.unit.agent_runtime.stage import WAKE

FAKE_WORKER = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))
CHUNK = 60_000


class Place(NamedTuple):
    """Where a node lives."""

    address: str
    world: str = "main"


NOWHERE = Place("")


def make_world(address: str, name: str) -> Place:
    """A world of a server, made empty."""

    async def make() -> None:
        async with connect(address, name, create=True):
            pass

    asyncio.run(make())
    return Place(address, name)


def make_settings(place: Place, folder: Path, name: str = "a", **changed: Any) -> NodeSettings:
    """A node that is quick to notice, with fake workers."""
    settings = NodeSettings(
        server=place.address,
        world=place.world,
        name=name,
        scratch=folder / name,
        workers=2,
        lease_ttl_s=1.0,
        part_wait_s=6.0,
        look_every_s=0.2,
        silence_s=0.5,
        stop_grace_s=2.0,
        program=FAKE_WORKER,
    )
    return replace(settings, **changed)


class Served:
    """A node, and a stub of its service."""

    def __init__(self, node: Node, channel: grpc.aio.Channel) -> None:
        self.node = node
        self.channel = channel
        self.stub: Any = runtime_service_pb2_grpc.RuntimeServiceStub(channel)

    async def launch(self, document: dict[str, Any], agents: dict[str, Sequence[str]], **header: Any) -> Any:
        """Launch a run with agents of these ids."""
        return await self.stub.Launch(make_requests(document, agents, **header))

    async def inspect(self, run: str = "") -> Any:
        return await self.stub.Inspect(pb.InspectRequest(run=run))


@asynccontextmanager
async def open_served(settings: NodeSettings) -> AsyncIterator[Served]:
    """A node that is registered and listens."""
    clock = Clock.system()
    log = NodeLog(settings.log_lines_max, settings.log_line_bytes_max, lambda: clock.wall_ns(clock.now_s()))
    async with open_node(settings, log, clock) as node, serve(node, "127.0.0.1", 0) as address:
        node.address = address
        await node.begin()
        async with grpc.aio.insecure_channel(address) as channel:
            yield Served(node, channel)


def describe_run(run: str = "r", agent: str = "level-k", **group: Any) -> dict[str, Any]:
    """A launch description of one group `g` without its agents."""
    spec = {"name": "g", "agent": agent, "wake": list(WAKE), "parameters": {"level": 1}, **group}
    return {"run": run, "workers": 2, "groups": [spec], "worker": {"stop_timeout_s": 2}}


def describe_moody(mood: str, run: str = "r", **parameters: Any) -> dict[str, Any]:
    """The same with workers that misbehave; see fake_worker."""
    return describe_run(run, "tests.unit.agent_runtime.players:Moody", parameters={"mood": mood, **parameters})


async def make_requests(
    document: dict[str, Any], agents: dict[str, Sequence[str]], **header: Any
) -> AsyncIterator[pb.LaunchRequest]:
    """The messages of a launch."""
    yield pb.LaunchRequest(header=pb.LaunchHeader(description_json=json.dumps(document).encode(), **header))
    for group, ids in agents.items():
        for piece in dump_agents(ids):
            yield pb.LaunchRequest(chunk=pb.PopulationChunk(group=group, arrow_ipc=piece))


def dump_agents(ids: Sequence[str], **attributes: Sequence[Any]) -> list[bytes]:
    """A population as pieces of an Arrow IPC stream."""
    table = pa.table({"agent_id": pa.array(list(ids), pa.string()), **attributes})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    return [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]


def list_names(folder: Path) -> list[str]:
    """What is in a folder, the server's own files left out."""
    return sorted(path.name for path in folder.iterdir() if path.stem != "data")


def name_agents(count: int) -> list[str]:
    return [f"agent-{number}" for number in range(count)]


async def wait_for(holds: Any, timeout_s: float = 20.0) -> None:
    """Until an awaited condition holds."""
    async with asyncio.timeout(timeout_s):
        while not await holds():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.05)
