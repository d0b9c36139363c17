"""One open world with what it stands on: its log, a thread that reads it, the loop's clock."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from env_server.behaviours.registry import Behaviours
from env_server.clocks.loop_clock import LoopClock
from env_server.model.changes import Changes
from env_server.model.limits import Limits
from env_server.pipeline import World
from env_server.pipeline.recovery import Recovery
from env_server.storage.lmdb_log import LmdbCommitLog


class OpenWorld(NamedTuple):
    """A world with what it stands on; `reader` is the thread that reads its log."""

    world: World
    log: LmdbCommitLog
    reader: ThreadPoolExecutor

    async def close(self) -> None:
        """Waits until all is durable and answered, completes the state tables, closes the log."""
        loop = asyncio.get_running_loop()
        stopped = loop.create_future()
        self.world.stop(lambda: stopped.set_result(None))
        await stopped
        await loop.run_in_executor(None, self.log.close)
        self.reader.shutdown()


def open_world(
    name: str,
    log: LmdbCommitLog,
    recovery: Recovery | None,
    limits: Limits,
    behaviours: Behaviours,
    on_fatal: Callable[[BaseException], None],
    start_mark: str,
) -> OpenWorld:
    """Makes a world of what its log has stored, brought into memory already or not. Blocks while that is read.

    `on_fatal` is called when the world can no longer commit; `start_mark` is to differ from that of every other start.
    When this raises, the log is closed.
    """
    loop = asyncio.get_running_loop()
    reader = ThreadPoolExecutor(1, thread_name_prefix=f"log-reader-{name}")

    async def read_log(from_revision: int, bytes_max: int) -> list[Changes]:
        return await loop.run_in_executor(reader, partial(log.read, from_revision, bytes_max))

    def read_log_then(from_revision: int, bytes_max: int, then: Callable[[Any], None]) -> None:
        def finished(reading: Future[list[Changes]]) -> None:
            loop.call_soon_threadsafe(then, reading.exception() or reading.result())

        reader.submit(log.read, from_revision, bytes_max).add_done_callback(finished)

    try:
        world = World(name, log, LoopClock(loop), limits, behaviours, read_log, read_log_then, recovery, start_mark)
    except BaseException:
        log.close()
        raise
    log.start(call=loop.call_soon_threadsafe, on_durable=world.durable, on_fatal=on_fatal)
    return OpenWorld(world, log, reader)
