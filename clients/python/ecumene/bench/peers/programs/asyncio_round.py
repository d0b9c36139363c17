"""Bare asyncio: `python asyncio_round.py TASKS` sleep for a second and put a number into a dict each, one JSON line.

No event, no world, no records. Without cyclic garbage collection, which would be most of the time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time

THINK_S = 1.0


async def think(reports: dict[str, float], name: str) -> None:
    """One turn."""
    await asyncio.sleep(THINK_S)
    reports[name] = float(len(name))


async def main(tasks: int) -> dict[str, float]:
    """All turns; how many there were, and how long they took together."""
    names = [f"agent-{index:07d}" for index in range(tasks)]
    reports: dict[str, float] = {}
    start_s = time.perf_counter()
    await asyncio.gather(*(think(reports, name) for name in names))
    return {"reports": len(reports), "wall_s": time.perf_counter() - start_s}


if __name__ == "__main__":
    gc.disable()
    sys.stdout.write(json.dumps(asyncio.run(main(int(sys.argv[1])))) + "\n")
