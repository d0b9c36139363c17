"""Monitor: one watch as a stream of row events, for clients without sessions."""

import contextlib
from functools import partial

from env_api.v1 import environment_service_pb2 as service_pb2

from env_server.events.watches import Watch
from env_server.model.watching import Delivery
from env_server.pipeline import World
from env_server.rpc.decode.watches import check_history, decode_monitor
from env_server.rpc.edge import Context, parse
from env_server.rpc.encode.events import encode_rows
from env_server.rpc.services.live_calls import LiveCall
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
        with self._streams.call():
            world = await self._worlds.reach(message.world)
            check_history(message.history, world.name, world.history)
            call = LiveCall(world)
            with self._streams.living(call), contextlib.closing(_open(message, world)) as watch:
                await self._write(world, watch, call, context)

    async def _write(self, world: World, watch: Watch, call: LiveCall, context: Context) -> None:
        """Writes every step of the watch, and a progress mark when none came for heartbeat_ms."""
        through_revision = 0
        take = partial(watch.next, EVENTS_MAX)
        async with contextlib.aclosing(call.steps(take, f"monitor of {world.name}")) as steps:
            async for step in steps:
                delivery = Delivery(None, None, max(through_revision, watch.mark() or 0)) if step is None else step
                through_revision = max(through_revision, delivery.through_revision)
                revision = max(delivery.through_revision, world.durable_revision)
                header = service_pb2.Header(world=world.name, history=world.history, revision=revision)
                for message in encode_rows(delivery, world.name, header, world.limits):
                    await context.write(message)


def _open(message: service_pb2.MonitorRequest, world: World) -> Watch:
    return world.watches.open(decode_monitor(message, world.limits))
