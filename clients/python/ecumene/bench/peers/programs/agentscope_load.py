"""One agent speaks, others hear: `python agentscope_load.py MODE LISTENERS MESSAGES`, one JSON line.

`local`: a hub in one process, in memory. `rpc`: the listeners live in one agent server on loopback, as distributed
agents do. A message counts as heard when `observe` has put it into the listener's memory. Nothing is durable.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import traceback
from typing import Any

import agentscope
from agentscope import msghub
from agentscope.agents import AgentBase
from agentscope.message import Msg

TEXT = "x" * 64
CAPACITY = 8
"""Threads of the agent server."""
TIMEOUT_S = 60


class Listener(AgentBase):
    """Keeps what it hears."""

    def reply(self, x: Any = None) -> Msg:
        """Never asked."""
        return Msg(self.name, TEXT, "assistant")

    def count(self) -> int:
        """How much it heard."""
        return int(self.memory.size())


class Talker(AgentBase):
    """Says the same whenever it is called."""

    def reply(self, x: Any = None) -> Msg:
        """A message for the hub."""
        return Msg(self.name, TEXT, "assistant")


def talk(listeners: list[Any], messages: int) -> dict[str, Any]:
    """Let one agent speak so often; each call returns when all others have observed it."""
    talker = Talker(name="talker", use_memory=False)
    with msghub([talker, *listeners]):
        latencies_s = []
        start_s = time.perf_counter()
        for _ in range(messages):
            before_s = time.perf_counter()
            talker()
            latencies_s.append(time.perf_counter() - before_s)
        wall_s = time.perf_counter() - start_s
    for listener in (listeners[0], listeners[-1]):
        if listener.count() != messages:
            raise RuntimeError(f"of {messages} messages {listener.count()} were heard")
    latencies_s.sort()
    p99_s = latencies_s[min(int(messages * 0.99), messages - 1)]
    return {"messages": messages, "wall_s": wall_s, "p99_ms": 1e3 * p99_s}


def main(mode: str, listeners: int, messages: int) -> dict[str, Any]:
    """Measure one way to hear."""
    agentscope.init(disable_saving=True, use_monitor=False, logger_level="ERROR")
    if mode == "local":
        return talk([Listener(name=f"listener{index}") for index in range(listeners)], messages)
    from agentscope.server import RpcAgentServerLauncher

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    launcher = RpcAgentServerLauncher(
        host="localhost",
        port=port,
        custom_agent_classes=[Listener],
        capacity=CAPACITY,
        max_timeout_seconds=TIMEOUT_S,
    )
    launcher.launch()
    # A dict each: it takes what is in it out.
    places = [{"host": "localhost", "port": launcher.port} for _ in range(listeners)]
    distributed = [Listener(name=f"listener{index}", to_dist=place) for index, place in enumerate(places)]
    return talk(distributed, messages)


if __name__ == "__main__":
    try:
        result = main(sys.argv[1], *map(int, sys.argv[2:]))
    except Exception:  # noqa: BLE001 - the program's edge
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the launcher's own shutdown may wait for ever; whoever started us ends what is left
