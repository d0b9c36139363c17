"""Redis as a peer of `ops_1k_keys`: SETs over 1,000 keys, from one Python process, in a pipeline."""

from __future__ import annotations

from pathlib import Path

from ecumene.bench.peers.servers import run_redis
from ecumene.bench.peers.venvs import make_python
from ecumene.bench.processes import run_script

REQUIREMENTS = ("redis>=5", "hiredis>=3")
PROGRAM = Path(__file__).parent / "programs" / "redis_load.py"
FRAME_OPS = 1000
FRAMES_IN_FLIGHT = 64
KEYS = 1000
TIMEOUT_S = 300.0


async def measure_redis(client: str, ops: int) -> float:
    """Durable SETs a second through redis-py (`py`) or bare sockets with hiredis (`hiredis`).

    Raises PeerAbsentError, BenchError.
    """
    python = await make_python("redis", REQUIREMENTS)
    async with run_redis() as address:
        port = address.rpartition(":")[2]
        arguments = [port, client, *map(str, (ops, KEYS, FRAME_OPS, FRAMES_IN_FLIGHT))]
        async with run_script(python, PROGRAM, arguments) as load:
            result = await load.read(TIMEOUT_S)
    return float(result["ops"] / result["wall_s"])
