"""AgentScope as a peer: of messages, its hub in one process and with listeners in an agent server; and of rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ecumene.bench.peers.absence import PeerAbsentError
from ecumene.bench.peers.venvs import make_python
from ecumene.bench.processes import run_script

# tqdm: it is imported there and not asked for.
REQUIREMENTS = ("agentscope[distribute]==0.1.1", "tqdm")
PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_S = 300.0


async def measure_agentscope(mode: str, listeners: int, messages: int) -> tuple[float, float]:
    """Messages a second that all listeners have heard, and the 99th percentile of one in ms; `local` or `rpc`.

    Raises PeerAbsentError, BenchError.
    """
    result = await _run("agentscope_load.py", mode, listeners, messages)
    return result["messages"] / result["wall_s"], result["p99_ms"]


async def measure_agentscope_round(mode: str, agents: int, servers: int) -> tuple[float, float]:
    """Agents a second of a round in which each thinks for a second and reports, and MiB of memory; `threads` or `rpc`.

    Raises PeerAbsentError, BenchError.
    """
    result = await _run("agentscope_round.py", mode, agents, servers)
    if result["reports"] != agents:
        raise PeerAbsentError(f"of {agents} agents {result['reports']} reported")
    return agents / result["wall_s"], result["rss_mib"]


async def _run(program: str, *arguments: object) -> dict[str, Any]:
    python = await make_python("agentscope", REQUIREMENTS)
    async with run_script(python, PROGRAMS / program, map(str, arguments)) as child:
        while True:
            line = await child.read_line(TIMEOUT_S)
            try:
                result = json.loads(line)
            except ValueError:  # it talks on stdout too
                continue
            if not isinstance(result, dict) or "wall_s" not in result:
                raise PeerAbsentError(f"agentscope said {line[:80]!r}")
            return result
