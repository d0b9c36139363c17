"""A real world, its log in memory, behind the real services."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from env_server.behaviours.registry import Behaviours
from env_server.clocks.loop_clock import LoopClock
from env_server.model.changes import Changes
from env_server.model.errors import Reason, Unavailable
from env_server.model.limits import Limits
from env_server.pipeline import World
from env_server.storage.memory import MemoryCommitLog, MemoryDisk
from tests.unit.env_server.rpc.fakes import Served, serve


@contextlib.asynccontextmanager
async def serve_world(limits: Limits | None = None) -> AsyncIterator[Served]:
    """Serves it until the block ends."""
    limits = limits or Limits()
    clock = LoopClock(asyncio.get_running_loop())
    log = MemoryCommitLog.open(MemoryDisk(), clock, limits, lambda: "h1")

    async def read_log(from_revision: int, bytes_max: int) -> list[Changes]:
        return log.read(from_revision, bytes_max)

    world = World("main", log, clock, limits, Behaviours([]), read_log)
    log.start(
        call=lambda report, number: report(number),
        on_durable=world.durable,
        on_fatal=lambda error: pytest.fail(str(error)),
    )
    async with serve(world) as served:  # type: ignore[arg-type]
        yield served
        world.leasing.stop()
        world.subscriptions.end_all(Unavailable(Reason.DRAINING, "the test is over"))
    log.kill()
