"""Agents that think for a second and report to the lean engine: one asyncio task each, and nothing else about them.

`python -m ecumene.bench.limits.lean_sleepers ADDRESS INDEX AGENTS THINK_S`: says when it is connected, begins on a line
from its parent, and prints what it came to when all reports are durable.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
from collections.abc import Awaitable

from ecumene.bench.child import Parent, run_child, tell
from ecumene.bench.senders import LeanStream

FRAME_OPS = 1000
LINGER_S = 0.005
REPORTS = "/game/reports"


class Sleepers:
    """All agents of one process, and the reports that wait to be sent."""

    def __init__(self, index: int, agents: int, think_s: float) -> None:
        self._names = [f"w{index}-{agent}" for agent in range(agents)]
        self._chance = random.Random(index)
        self._think_s = think_s
        self._keys: list[str] = []
        self._values: list[float] = []
        self._enough = asyncio.Event()

    async def report_all(self, stream: LeanStream) -> int:
        """Let all think and report; returns how many reports were durable."""
        turns = [asyncio.create_task(self._turn(name), name="turn") for name in self._names]
        answers: list[Awaitable[int]] = []
        left = len(self._names)
        while left:
            if len(self._keys) < min(FRAME_OPS, left):
                self._enough.clear()
                try:
                    async with asyncio.timeout(LINGER_S):
                        await self._enough.wait()
                except TimeoutError:
                    pass
            keys, values = self._keys[:FRAME_OPS], self._values[:FRAME_OPS]
            if keys:
                del self._keys[: len(keys)], self._values[: len(keys)]
                left -= len(keys)
                answers.append(await stream.submit(REPORTS, keys, values, keys, gate_generation=1))
        await asyncio.gather(*turns)
        return sum([await answer for answer in answers])

    async def _turn(self, name: str) -> None:
        await asyncio.sleep(self._think_s)
        self._keys.append(name)
        self._values.append(self._chance.random() * 100)
        if len(self._keys) >= FRAME_OPS:
            self._enough.set()


async def main(address: str, index: int, agents: int, think_s: float) -> None:
    """Everything, on the parent's word."""
    gc.disable()
    sleepers = Sleepers(index, agents, think_s)
    async with Parent() as parent, LeanStream(address) as stream:
        tell({"ready": True})
        if await parent.wait_for_go():
            tell({"done": await sleepers.report_all(stream)})
            await parent.wait_for_go()  # whoever measures reads our memory and CPU until then


if __name__ == "__main__":
    run_child(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
