"""AgentScope as a peer of messages: its hub in one process, and with listeners in an agent server."""

from __future__ import annotations

import json
from pathlib import Path

from ecumene.bench.peers.absence import PeerAbsentError
from ecumene.bench.peers.venvs import make_python
from ecumene.bench.processes import run_script

# tqdm: it is imported there and not asked for.
REQUIREMENTS = ("agentscope[distribute]==0.1.1", "tqdm")
PROGRAM = Path(__file__).parent / "programs" / "agentscope_load.py"
TIMEOUT_S = 300.0


async def measure_agentscope(mode: str, listeners: int, messages: int) -> tuple[float, float]:
    """Messages a second that all listeners have heard, and the 99th percentile of one in ms; `local` or `rpc`.

    Raises PeerAbsentError, BenchError.
    """
    python = await make_python("agentscope", REQUIREMENTS)
    async with run_script(python, PROGRAM, [mode, str(listeners), str(messages)]) as program:
        while True:
            line = await program.read_line(TIMEOUT_S)
            try:
                result = json.loads(line)
            except ValueError:  # it talks on stdout too
                continue
            if not isinstance(result, dict) or "wall_s" not in result:
                raise PeerAbsentError(f"agentscope said {line[:80]!r}")
            return result["messages"] / result["wall_s"], result["p99_ms"]
