"""What the programs that a benchmark starts have in common: one loop, JSON lines on stdout, an end with the parent."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from typing import Any


def run_child(work: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where there is one, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


def tell(document: dict[str, Any]) -> None:
    """One JSON line for the parent."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


class Parent:
    """Async context manager: standard input, which the parent holds open as long as this process is to live."""

    async def __aenter__(self) -> Parent:
        self._reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(self._reader)
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._transport.close()

    async def wait_for_go(self) -> bool:
        """Wait for the parent's next word; False = it is gone."""
        return bool(await self._reader.readline())

    async def read(self) -> dict[str, Any] | None:
        """What the parent tells next; None = it is gone."""
        line = await self._reader.readline()
        document: dict[str, Any] | None = json.loads(line) if line else None
        return document
