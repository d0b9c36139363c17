"""Bare asyncio as a peer of rounds: a task an agent, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ecumene.bench.processes import run_script

PROGRAM = Path(__file__).parent / "programs" / "asyncio_round.py"
TIMEOUT_S = 300.0


async def measure_asyncio_round(tasks: int) -> float:
    """Tasks a second that sleep for a second and put down a number each. Raises BenchError."""
    async with run_script(sys.executable, PROGRAM, [str(tasks)]) as program:
        result = json.loads(await program.read_line(TIMEOUT_S))
    return float(result["reports"] / result["wall_s"])
