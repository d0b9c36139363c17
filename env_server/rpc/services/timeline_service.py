"""TimelineService: clocks and timers as ops, and as they are seen."""

import asyncio

from env_api.v1 import timeline_service_pb2 as pb
from env_api.v1.environment_service_pb2 import Header
from google.protobuf.message import Message

from env_server.model.errors import ArrivalUnseen, DeniedView, NotFound, WorldError
from env_server.model.frames import Written
from env_server.model.names import check_segment
from env_server.model.operations import Code, Delete
from env_server.model.views import check_group
from env_server.pipeline import World
from env_server.rpc.decode.timelines import decode_control, decode_set_timer
from env_server.rpc.edge import Context, Handler, parse
from env_server.rpc.encode.headers import encode_bounded
from env_server.rpc.encode.timelines import encode_clock_state, encode_timer
from env_server.rpc.services.listings import ServicePage
from env_server.rpc.services.lone_ops import begin, finish, frame_of, see
from env_server.rpc.streams import Streams
from env_server.worlds import Worlds


class TimelineService:
    """The rpcs of TimelineService."""

    def __init__(self, worlds: Worlds, streams: Streams) -> None:
        streams.when_drained(self._drain)
        self._worlds = worlds
        self._arrivals: set[asyncio.Future[WorldError | None]] = set()
        self._drains = False

    def handlers(self) -> dict[str, Handler]:
        """A handler for each rpc, by name."""
        return {
            "GetClock": self._get,
            "ControlClock": self._control,
            "SetTimer": self._set,
            "CancelTimer": self._cancel,
            "ListTimers": self._list,
        }

    async def _get(self, request: bytes, _context: Context) -> bytes:
        message = parse(pb.GetClockRequest, request)
        world = await self._worlds.reach(message.world)
        seen = world.timekeeping.see(message.path, _group_of(world, message))
        header = await see(world)
        header.sim_time_ns = seen.state.now_ns
        return pb.GetClockResponse(header=header, clock=encode_clock_state(seen)).SerializeToString()

    async def _control(self, request: bytes, context: Context) -> bytes:
        message = parse(pb.ControlClockRequest, request)
        world = await self._worlds.reach(message.world)
        asked = decode_control(message.control)
        frame = frame_of(world, message, Code.CONTROL_CLOCK, asked, context, message.path)
        header, _, duplicate = await finish(world, begin(world, frame), context)
        await self._arrival(world, message.path)
        response = pb.ControlClockResponse(header=header, duplicate=duplicate)
        try:
            seen = world.timekeeping.see(message.path, _group_of(world, message))
        except (NotFound, DeniedView):  # deleted, or hidden, meanwhile: what was asked has been done
            return response.SerializeToString()
        await see(world)
        response.header.sim_time_ns = seen.state.now_ns
        response.clock.CopyFrom(encode_clock_state(seen))
        return response.SerializeToString()

    async def _set(self, request: bytes, context: Context) -> bytes:
        message = parse(pb.SetTimerRequest, request)
        world = await self._worlds.reach(message.world)
        check_segment(message.name, world.limits)
        asked = decode_set_timer(message.timer, world.limits)
        header, written, duplicate = await _execute(world, message, Code.SET_TIMER, asked, context)
        return pb.SetTimerResponse(header=header, changed=written.changed, duplicate=duplicate).SerializeToString()

    async def _cancel(self, request: bytes, context: Context) -> bytes:
        message = parse(pb.CancelTimerRequest, request)
        world = await self._worlds.reach(message.world)
        check_segment(message.name, world.limits)
        asked = Delete(if_present=message.if_present)
        header, written, duplicate = await _execute(world, message, Code.CANCEL_TIMER, asked, context)
        return pb.CancelTimerResponse(header=header, changed=written.changed, duplicate=duplicate).SerializeToString()

    async def _list(self, request: bytes, _context: Context) -> bytes:
        message = parse(pb.ListTimersRequest, request)
        world = await self._worlds.reach(message.world)
        page = ServicePage(world.limits, message.page_size)
        if message.page_token:
            check_segment(message.page_token, world.limits)
        response = pb.ListTimersResponse()
        group = _group_of(world, message)
        time_ns = world.timekeeping.tell_time(message.path)
        for timer in world.timekeeping.list_timers(message.path, message.page_token, group, page.rows_max + 1):
            encoded = encode_timer(timer)
            if not page.takes(encoded):
                response.next_page_token = response.timers[-1].name
                break
            response.timers.append(encoded)
        response.header.CopyFrom(await see(world))
        if time_ns is not None:
            response.header.sim_time_ns = time_ns
        return encode_bounded(response, world.limits)

    def _drain(self) -> None:
        """Ends the calls that wait for a clock to arrive: that may take for ever, and goes on at the next server."""
        self._drains = True
        for arrival in self._arrivals:
            _resolve(arrival, ArrivalUnseen())

    async def _arrival(self, world: World, path: str) -> None:
        """Waits until the clock is on no way any more; that the caller gives up ends the waiting alone.

        Raises:
            ArrivalUnseen: the world is closed, or the server drains.
            NotFound: WORLD_NOT_FOUND: the world is gone.
        """
        arrival: asyncio.Future[WorldError | None] = asyncio.get_running_loop().create_future()
        timekeeping = world.timekeeping
        forget = timekeeping.when_arrived(path, lambda: _resolve(arrival, timekeeping.ended))
        if self._drains:
            _resolve(arrival, ArrivalUnseen())
        world.users += 1
        self._arrivals.add(arrival)
        try:
            ended = await arrival
        finally:
            world.users -= 1
            self._arrivals.discard(arrival)
            forget()
        if ended is not None:
            raise ended


def _group_of(world: World, message: pb.GetClockRequest | pb.ControlClockRequest | pb.ListTimersRequest) -> str:
    """The group whose view a call takes; "" = it sees everything."""
    group = message.caller.group
    if group:
        check_group(group, world.limits, "caller.group")
    return group


async def _execute(
    world: World, message: Message, code: Code, asked: object, context: Context
) -> tuple[Header, Written, bool]:
    """An op on one timer: the response's header, what came of it, and whether that is an earlier op's."""
    path, name = message.path, message.name  # type: ignore[attr-defined]
    frame = frame_of(world, message, code, asked, context, path, name)
    time_ns = world.timekeeping.tell_time(path)
    header, written, duplicate = await finish(world, begin(world, frame), context)
    if time_ns is not None:
        header.sim_time_ns = time_ns
    return header, written, duplicate


def _resolve(arrival: "asyncio.Future[WorldError | None]", ended: WorldError | None) -> None:
    if not arrival.done():
        arrival.set_result(ended)
