"""Other systems with a space: indexes of points, and Mesa with whole models."""

from __future__ import annotations

import json
from pathlib import Path

from ecumene.bench.peers.venvs import make_python
from ecumene.bench.processes import run_script

REQUIREMENTS = ("mesa==3.3.1", "rtree==1.4.1", "scipy==1.17.1")
PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_S = 600.0


async def measure_index(library: str, points: Path, radius: float, nearest: int, queries: int) -> dict[str, float]:
    """Microseconds of CPU each, by what was done: `rtree`, `scipy_batch` or `scipy_each`.

    Raises PeerAbsentError, BenchError.
    """
    return await _run("spatial_load.py", library, points, radius, nearest, queries)


async def measure_model(system: str, model: Path) -> dict[str, float]:
    """Seconds of the steps of a model, `wall_s` and `cpu_s`, and its `end`: of `mesa`, or of bare `arrays`.

    Raises PeerAbsentError, BenchError.
    """
    return await _run("mesa_models.py", system, model)


async def _run(program: str, *arguments: object) -> dict[str, float]:
    python = await make_python("space", REQUIREMENTS)
    async with run_script(python, PROGRAMS / program, map(str, arguments)) as child:
        result: dict[str, float] = json.loads(await child.read_line(TIMEOUT_S))
    return result
