"""A program that starts a server, a node with workers, and a host of workflows, tells their process ids, and ends.

python -m tests.faults.family_child FOLDER END     END: raises, or leaves at once; otherwise it waits to be ended
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from ecumene.client import connect
from ecumene.launch import start_service
from ecumene.launch.node_runs import GroupAgents, inspect_nodes, launch_run

from agent_runtime.workflows.host_process import HostProcess, HostSettings
from tests.unit.agent_runtime.nodes import dump_agents, name_agents
from tests.unit.agent_runtime.stage import WAKE

WORKERS = 2
AGENTS = 10
GRACE_S = 3.0
"""With their server, which goes with them, the others have nobody to take leave of: this is what ends some of them."""


async def start_everything(folder: Path, end: str) -> None:
    """Start, tell, and end when a line comes in."""
    data = ["--data-dir", str(folder / "data"), "--port", "0"]
    server = await start_service("env-server", data, orphan_grace_s=GRACE_S)
    address = str(server.ready["address"])
    place = ["--server", address, "--name", "a", "--scratch", str(folder)]
    node = await start_service("runtime", place, orphan_grace_s=GRACE_S)
    host = await HostProcess(address, "h", HostSettings(stop_timeout_s=0.5)).start()
    async with connect(address) as world:
        group = {"name": "g", "agent": "level-k", "parts": WORKERS, "wake": list(WAKE), "parameters": {"level": 1}}
        document = {"run": "r", "groups": [group], "workers": WORKERS}
        await launch_run(world, document, {"g": GroupAgents(AGENTS, b"".join(dump_agents(name_agents(AGENTS))))})
        (info,) = await inspect_nodes(world)
    workers = [worker.pid for run in info.runs for worker in run.workers]
    print(json.dumps([server.pid, node.pid, host.pid, *workers]), flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    if end == "raises":
        raise RuntimeError(end)
    if end == "leaves at once":
        os._exit(3)
    await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(start_everything(Path(sys.argv[1]), sys.argv[2]))
