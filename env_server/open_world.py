"""One open world with what it stands on: its log, a thread that reads it, the loop's clock."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from env_server.behaviours.registry import Behaviours
from env_server.clocks.loop_clock import LoopClock
from env_server.key_queues.slots import Pool
from env_server.model.changes import Changes
from env_server.model.limits import Limits
from env_server.pipeline import World
from env_server.pipeline.recovery import Recovery
from env_server.storage.lmdb_log import LmdbCommitLog


@dataclass(slots=True)
class OpenWorld:
    """A world with what it stands on; `reader` is the thread that reads its log."""

    world: World
    log: LmdbCommitLog
    reader: ThreadPoolExecutor
    last_use: int = 0
    """Uses of all worlds are counted; this is the number of its last one."""

    async def close(self) -> None:
        """Waits until all is durable and answered, completes the state tables, closes the log."""
        loop = asyncio.get_running_loop()
        stopped = loop.create_future()
        self.world.stop(lambda: stopped.set_result(None))
        await stopped
        await loop.run_in_executor(None, self.log.close)
        self.reader.shutdown()

    async def let_go(self) -> None:
        """After `close`, when nobody has the world any more: frees what it holds, a slice a loop step."""
        for _ in self.world.dismantle():
            await asyncio.sleep(0)


def open_world(
    name: str,
    log: LmdbCommitLog,
    recovery: Recovery | None,
    limits: Limits,
    behaviours: Behaviours,
    on_fatal: Callable[[BaseException], None],
    pool: Pool,
    start_mark: str,
) -> OpenWorld:
    """Makes a world of what its log has stored, brought into memory already or not. Blocks while that is read.

    `on_fatal` is called when the world can no longer commit; `pool` holds the slots that all worlds share; `start_mark`
    is to differ from that of every other start. When this raises, the log is closed.
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
        world = World(
            name, log, LoopClock(loop), limits, behaviours, read_log, read_log_then, recovery, start_mark, pool
        )
    except BaseException:
        log.close()
        raise
    log.start(call=loop.call_soon_threadsafe, on_durable=world.durable, on_fatal=on_fatal)
    return OpenWorld(world, log, reader)
