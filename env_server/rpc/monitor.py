"""Monitor: one watch as a stream of row events, for clients without sessions."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from env_api.v1 import environment_service_pb2 as service_pb2

from env_server.events.watches import Watch
from env_server.model.errors import Reason, Unavailable, WorldError
from env_server.model.watching import Delivery
from env_server.pipeline import World
from env_server.rpc.decode_watches import check_history, decode_monitor
from env_server.rpc.edge import Context, parse
from env_server.rpc.encode_events import encode_rows
from env_server.rpc.streams import Streams
from env_server.worlds import Worlds

EVENTS_MAX = 4096
"""Events taken at a time; the transport's flow control does the rest."""


class MonitorService:
    """The Monitor rpc."""

    def __init__(self, worlds: Worlds, streams: Streams) -> None:
        self._worlds = worlds
        self._streams = streams

    async def serve(self, request: bytes, context: Context) -> None:
        """Streams events until the client leaves or the watch ends.

        Raises:
            WorldError: what the stream ends with; it never ends without one.
        """
        message = parse(service_pb2.MonitorRequest, request)
        world = self._worlds.get(message.world)
        check_history(message.history, world.name, world.history)
        watch = world.watches.open(decode_monitor(message, world.limits))
        stream = MonitorStream(world)
        self._streams.add(stream)
        try:
            await stream.run(watch, context)
        finally:
            self._streams.discard(stream)
            watch.close()


class MonitorStream:
    """One living Monitor call."""

    client_id = ""

    def __init__(self, world: World) -> None:
        self.world_name = world.name
        self._world = world
        self._ended: asyncio.Future[WorldError] = asyncio.get_running_loop().create_future()

    def go_away(self, reason: str, reconnect_after_ms: int) -> None:
        """Rows have no go-away: the call ends, and the client resumes after its last mark."""
        self.end(Unavailable(Reason.DRAINING, reason, retry_delay_ms=reconnect_after_ms))

    def end(self, error: WorldError) -> None:
        """Ends the call with the error's status."""
        if not self._ended.done():
            self._ended.set_result(error)

    async def run(self, watch: Watch, context: Context) -> None:
        """Writes every step of the watch, and a progress mark when none came for heartbeat_ms.

        Raises:
            WorldError: the watch or the stream was ended with it.
        """
        world, limits = self._world, self._world.limits
        async with contextlib.aclosing(self._steps(watch)) as steps:
            async for delivery in steps:
                revision = max(delivery.through_revision, world.durable_revision)
                header = service_pb2.Header(world=world.name, history=world.history, revision=revision)
                for message in encode_rows(delivery, world.name, header, limits):
                    await context.write(message)

    async def _steps(self, watch: Watch) -> AsyncGenerator[Delivery, None]:
        loop = asyncio.get_running_loop()
        heartbeat_s = self._world.limits.heartbeat_ms / 1000
        step: asyncio.Task[Delivery] | None = None
        through_revision = 0
        try:
            while True:
                step = step or loop.create_task(watch.next(EVENTS_MAX), name=f"monitor of {self.world_name}")
                await asyncio.wait((step, self._ended), timeout=heartbeat_s, return_when=asyncio.FIRST_COMPLETED)
                if self._ended.done():
                    raise self._ended.result()
                if step.done():
                    delivery = step.result()
                    step = None
                    through_revision = max(through_revision, delivery.through_revision)
                    yield delivery
                else:
                    through_revision = max(through_revision, watch.mark() or 0)
                    yield Delivery(None, None, through_revision)
        finally:
            if step is not None:
                step.cancel()
                await asyncio.gather(step, return_exceptions=True)
