"""What a node and its workers wrote: the newest lines, and whoever reads along."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

LINES_A_STEP = 500


@dataclass(frozen=True, slots=True)
class Line:
    """One line; `run` "" = the node's own."""

    number: int
    wall_time_ns: int
    run: str
    worker: int
    text: str


class NodeLog:
    """Keeps the newest `lines_max` lines, each cut at `line_bytes_max`. A slow reader misses the oldest."""

    def __init__(
        self,
        lines_max: int,
        line_bytes_max: int,
        wall_ns: Callable[[], int],
        echo: Callable[[str], None] | None = None,
    ) -> None:
        self._lines: deque[Line] = deque(maxlen=lines_max)
        self._line_bytes_max = line_bytes_max
        self._wall_ns = wall_ns
        self._echo = echo
        self._next = 1
        self._news = asyncio.Event()

    def write(self, text: str, run: str = "", worker: int = 0) -> None:
        """Add a line."""
        cut = text.encode("utf-8", "replace")[: self._line_bytes_max].decode("utf-8", "ignore")
        self._lines.append(Line(self._next, self._wall_ns(), run, worker, cut))
        self._next += 1
        self._news.set()
        if self._echo is not None:
            self._echo(f"[{run} worker {worker}] {cut}" if run else cut)

    async def read(self, run: str, lines_max: int, *, follow: bool) -> AsyncIterator[list[Line]]:
        """The newest lines that are kept, in order, of one run or of all; with `follow` then those to come."""
        kept = [line for line in self._lines if not run or line.run == run]
        kept = kept[-lines_max:] if lines_max else kept
        seen = self._next - 1
        for start in range(0, len(kept), LINES_A_STEP):
            yield kept[start : start + LINES_A_STEP]
        while follow:
            self._news.clear()
            fresh = [line for line in self._lines if line.number > seen]
            seen = self._next - 1
            if told := [line for line in fresh if not run or line.run == run]:
                yield told
            if seen == self._next - 1:
                await self._news.wait()
