"""Every agent thinks for a second and reports once: `python agentscope_round.py MODE AGENTS SERVERS`, one JSON line.

`threads`: all agents in this process, each called from a thread of its own. `rpc`: distributed agents in SERVERS agent
servers on loopback, which have a thread for each agent of theirs, so that nobody waits for another; the script calls
all and then reads what they return, as its users do. Nothing is durable, nothing recorded, nothing checked.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import agentscope
from agentscope.agents import AgentBase
from agentscope.message import Msg

THINK_S = 1.0
SERVE = "serve"
STACK_BYTES = 256 * 1024
"""Of a thread: thousands of them in one process."""
START_TIMEOUT_S = 60
RESULT_TIMEOUT_S = 2
"""For which a server holds a request for a result; long enough, and a wake-up that it loses costs no more."""
RETRY_DELAY_S = 0.1


class Thinker(AgentBase):
    """Thinks, and names a number."""

    def reply(self, x: Any = None) -> Msg:
        """A report."""
        time.sleep(THINK_S)
        return Msg(self.name, float(len(self.name)), "assistant")


def play_in_threads(agents: int) -> dict[str, Any]:
    """All agents in this process."""
    thinkers = [Thinker(name=f"agent-{index}", use_memory=False) for index in range(agents)]
    start_s = time.perf_counter()
    with ThreadPoolExecutor(agents) as pool:
        reports = {
            thinker.name: report.content for thinker, report in zip(thinkers, pool.map(call, thinkers), strict=True)
        }
    return describe(reports, time.perf_counter() - start_s, [os.getpid()])


def play_distributed(agents: int, servers: int) -> dict[str, Any]:
    """All agents in agent servers."""
    from agentscope.rpc.retry_strategy import RetryFixedTimes

    ports = take_free_ports(servers)
    capacity = -(-agents // servers)
    # Its launcher forks servers too, but those have 32 threads whatever they are told.
    command = [sys.executable, __file__, SERVE]
    started = [subprocess.Popen([*command, str(port), str(capacity)]) for port in ports]
    wait_for(ports)
    names = [f"agent-{index}" for index in range(agents)]
    patience = RetryFixedTimes(max_retries=1000, delay=RETRY_DELAY_S)
    places = [
        {"host": "localhost", "port": ports[index % servers], "retry_strategy": patience} for index in range(agents)
    ]
    thinkers = [Thinker(name=name, use_memory=False, to_dist=place) for name, place in zip(names, places, strict=True)]
    for thinker in thinkers:
        thinker._check_created()  # the first call would wait for it
    start_s = time.perf_counter()
    called = [thinker() for thinker in thinkers]
    reports = {name: placeholder.content for name, placeholder in zip(names, called, strict=True)}
    return describe(reports, time.perf_counter() - start_s, [os.getpid(), *(server.pid for server in started)])


def serve(port: int, capacity: int) -> None:
    """An agent server, in this process."""
    from agentscope.server import RpcAgentServerLauncher

    launcher = RpcAgentServerLauncher(
        host="localhost",
        port=port,
        capacity=capacity,
        max_pool_size=2 * capacity,
        max_timeout_seconds=RESULT_TIMEOUT_S,
        local_mode=True,
        custom_agent_classes=[Thinker],
    )
    launcher.launch(in_subprocess=False)


def call(thinker: Any) -> Any:
    """One turn."""
    return thinker()


def describe(reports: dict[str, float], wall_s: float, pids: list[int]) -> dict[str, Any]:
    """What came of it."""
    return {"reports": len(reports), "wall_s": wall_s, "rss_mib": sum(map(read_anonymous_kib, pids)) / 1024}


def read_anonymous_kib(pid: int) -> int:
    """Memory that a process holds and no file backs."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("RssAnon:")), 0)


def take_free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def wait_for(ports: list[int]) -> None:
    """Until all servers listen. Raises TimeoutError."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    for port in ports:
        while True:
            with suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
                break
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"no agent server listens on {port}")
            time.sleep(0.05)


def main(mode: str, agents: int, servers: int) -> dict[str, Any]:
    """Play one round."""
    return play_in_threads(agents) if mode == "threads" else play_distributed(agents, servers)


if __name__ == "__main__":
    threading.stack_size(STACK_BYTES)
    agentscope.init(disable_saving=True, use_monitor=False, logger_level="ERROR")
    if sys.argv[1] == SERVE:
        serve(int(sys.argv[2]), int(sys.argv[3]))
        os._exit(0)
    try:
        result = main(sys.argv[1], *map(int, sys.argv[2:]))
    except Exception:  # noqa: BLE001 - the program's edge
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(0)  # its servers are ended by whoever started us
