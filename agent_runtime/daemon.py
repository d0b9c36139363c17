"""The daemon of a node: registers with the world, listens for what it is told, and hosts agents until it is stopped.

stdout   {"state": "ready", …} when it listens and is registered; {"state": "ended" | "failed", …} at the end
exit     0 stopped as asked, 1 failed
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from ecumene.client import EcumeneError

from agent_runtime.model.clock import Clock
from agent_runtime.model.errors import AgentRuntimeError
from agent_runtime.node.logs import NodeLog
from agent_runtime.node.node import Node, open_node
from agent_runtime.node.settings import NodeSettings
from agent_runtime.programs.output import JsonLines
from agent_runtime.programs.stopping import wait_stop_or_failure
from agent_runtime.rpc.service import serve
from agent_runtime.workflows.host_process import HostProcess
from agent_runtime.workflows.kept_host import Restarts, keep_host

EXIT_DONE, EXIT_FAILED = 0, 1


async def run_daemon(settings: NodeSettings, host: str, port: int, lines: JsonLines) -> int:
    """Be a node until SIGTERM or SIGINT, or until the world is gone for too long. Returns the exit code."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    clock = Clock.system()
    log = NodeLog(settings.log_lines_max, settings.log_line_bytes_max, wall_clock(clock), echo)
    try:
        async with open_node(settings, log, clock) as node, serve(node, host, port) as address:
            node.address = address
            await node.begin()
            async with keep_workflows(settings, clock, log):
                lines.write(describe_ready(node))
                await wait_stop_or_failure(stop, node.tasks.failure)
                node.is_draining = True
    except (AgentRuntimeError, EcumeneError, OSError) as error:
        reason = " ".join(str(error).split())
        lines.write({"state": "failed", "node": settings.name, "reason": reason})
        sys.stderr.write(f"ecumene runtime: {reason}\n")
        return EXIT_FAILED
    lines.write({"state": "ended", "node": settings.name})
    return EXIT_DONE


@asynccontextmanager
async def keep_workflows(settings: NodeSettings, clock: Clock, log: NodeLog) -> AsyncIterator[None]:
    """The node's host of workflows, if it is to have one, under the node's name. Raises HostEndedError."""
    if settings.workflows is None:
        yield
        return
    process = HostProcess(settings.server, settings.name, settings.workflows, world=settings.world)
    restarts = Restarts(
        settings.restarts_max, settings.restart_window_s, settings.backoff_first_s, settings.backoff_s_max
    )
    async with keep_host(process, restarts, clock, log.write):
        yield


def describe_ready(node: Node) -> dict[str, Any]:
    """The readiness line."""
    settings = node.settings
    return {
        "state": "ready",
        "node": settings.name,
        "address": node.address,
        "world": settings.world,
        "capacity": settings.capacity,
        "workflows": settings.workflows is not None,
        "pid": os.getpid(),
    }


def choose_name() -> str:
    """A name for the node of this machine, which stays the same over restarts."""
    return re.sub(r"[^a-z0-9._]", "_", socket.gethostname().lower()).strip("._")[:40] or "node"


def wall_clock(clock: Clock) -> Callable[[], int]:
    """The wall time, ns since 1970 UTC."""
    return lambda: clock.wall_ns(clock.now_s())


def echo(line: str) -> None:
    """Write a line for people."""
    try:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    except (BrokenPipeError, ValueError):
        pass  # nobody reads it
