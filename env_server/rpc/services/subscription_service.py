"""SubscriptionService: subscriptions as calls, consuming as a stream."""

import contextlib

from env_api.v1 import environment_service_pb2, subscription_service_pb2

from env_server.model.errors import NotFound, Reason
from env_server.model.frames import Frame, Written
from env_server.model.names import check_segment
from env_server.model.operations import Code
from env_server.model.subscriptions import DeleteSubscription, SeekSubscription, SubscriptionState
from env_server.model.watching import Delivery
from env_server.pipeline import World
from env_server.rpc.decode.subscriptions import check_name, decode_consume, decode_create
from env_server.rpc.decode.watches import check_history
from env_server.rpc.edge import Context, Handler, parse
from env_server.rpc.encode.headers import encode_bounded, encode_header
from env_server.rpc.encode.subscriptions import encode_consumed, encode_subscription
from env_server.rpc.services.listings import ServicePage
from env_server.rpc.services.live_calls import LiveCall
from env_server.rpc.services.lone_ops import begin, finish, frame_of, see
from env_server.rpc.streams import Streams
from env_server.subscriptions.consumer import Consumer
from env_server.worlds import Worlds


class SubscriptionService:
    """The rpcs of SubscriptionService."""

    def __init__(self, worlds: Worlds, streams: Streams) -> None:
        self._worlds = worlds
        self._streams = streams

    def handlers(self) -> dict[str, Handler]:
        """A handler for each unary rpc, by name."""
        return {
            "CreateSubscription": self._create,
            "GetSubscription": self._get,
            "ListSubscriptions": self._list,
            "SeekSubscription": self._seek,
            "DeleteSubscription": self._delete,
            "ExtendDeadline": self._extend,
        }

    async def consume(self, request: bytes, context: Context) -> None:
        """Attaches a consumer and streams to it until it leaves or is ended; then what it held is for others.

        Raises:
            WorldError: what the stream ends with; it never ends without one.
        """
        message = parse(subscription_service_pb2.ConsumeRequest, request)
        with self._streams.call():
            world = await self._worlds.reach(message.world)
            check_history(message.history, world.name, world.history)
            outstanding_max = decode_consume(message, world.limits)
            call = LiveCall(world)
            with self._streams.living(call):
                consumer = world.subscriptions.attach(message.name, message.consumer, outstanding_max)
                try:
                    await self._write(call, consumer, f"consumer {message.consumer} of {message.name}", context)
                finally:
                    world.subscriptions.detach(message.name, consumer)

    async def _write(self, call: LiveCall, consumer: Consumer, name: str, context: Context) -> None:
        """Writes every step of the consumer, and a mark when none came for heartbeat_ms."""
        async with contextlib.aclosing(call.steps(consumer.next, name)) as steps:
            async for step in steps:
                if step is None:
                    mark = consumer.mark()
                    if mark is None:
                        continue
                    step = Delivery(None, None, mark)
                for part in encode_consumed(step, call.world):
                    await context.write(part)

    async def _create(self, request: bytes, context: Context) -> bytes:
        message = parse(subscription_service_pb2.CreateSubscriptionRequest, request)
        world = await self._worlds.reach(message.world)
        asked = decode_create(message, world.limits)
        frame = frame_of(world, message, Code.CREATE_SUBSCRIPTION, asked, context)
        header, written, state = await _finish(world, frame, message.name, context)
        return subscription_service_pb2.CreateSubscriptionResponse(
            header=header, subscription=state and encode_subscription(state), created=written.changed
        ).SerializeToString()

    async def _get(self, request: bytes, _context: Context) -> bytes:
        message = parse(subscription_service_pb2.GetSubscriptionRequest, request)
        world = await self._worlds.reach(message.world)
        check_name(message.name, world.limits)
        try:
            found: SubscriptionState | NotFound = world.subscriptions.find(message.name)
        except NotFound as absent:
            found = absent
        header = await see(world)
        if isinstance(found, NotFound):
            raise found
        return subscription_service_pb2.GetSubscriptionResponse(
            header=header, subscription=encode_subscription(found)
        ).SerializeToString()

    async def _list(self, request: bytes, _context: Context) -> bytes:
        message = parse(subscription_service_pb2.ListSubscriptionsRequest, request)
        world = await self._worlds.reach(message.world)
        page = ServicePage(world.limits, message.page_size)
        if message.page_token:
            check_segment(message.page_token, world.limits, Reason.INVALID_FIELD, "page_token")
        response = subscription_service_pb2.ListSubscriptionsResponse()
        for state in world.subscriptions.list(after=message.page_token):
            encoded = encode_subscription(state)
            if not page.takes(encoded):
                response.next_page_token = response.subscriptions[-1].name
                break
            response.subscriptions.append(encoded)
        response.header.CopyFrom(await see(world))
        return encode_bounded(response, world.limits)

    async def _seek(self, request: bytes, context: Context) -> bytes:
        message = parse(subscription_service_pb2.SeekSubscriptionRequest, request)
        world = await self._worlds.reach(message.world)
        check_name(message.name, world.limits)
        asked = SeekSubscription(message.name, message.from_revision)
        frame = frame_of(world, message, Code.SEEK_SUBSCRIPTION, asked, context)
        header, _, state = await _finish(world, frame, message.name, context)
        return subscription_service_pb2.SeekSubscriptionResponse(
            header=header, subscription=state and encode_subscription(state)
        ).SerializeToString()

    async def _delete(self, request: bytes, context: Context) -> bytes:
        message = parse(subscription_service_pb2.DeleteSubscriptionRequest, request)
        world = await self._worlds.reach(message.world)
        check_name(message.name, world.limits)
        frame = frame_of(world, message, Code.DELETE_SUBSCRIPTION, DeleteSubscription(message.name), context)
        header, _, _ = await _finish(world, frame, message.name, context)
        return subscription_service_pb2.DeleteSubscriptionResponse(header=header).SerializeToString()

    async def _extend(self, request: bytes, _context: Context) -> bytes:
        message = parse(subscription_service_pb2.ExtendDeadlineRequest, request)
        world = await self._worlds.reach(message.world)
        check_name(message.name, world.limits)
        world.subscriptions.extend(message.name, message.term)
        return subscription_service_pb2.ExtendDeadlineResponse(header=encode_header(world)).SerializeToString()


async def _finish(
    world: World, frame: Frame, name: str, context: Context
) -> tuple[environment_service_pb2.Header, Written, SubscriptionState | None]:
    """Executes it; what it wrote, and the subscription as it was right after, None if it was gone."""
    answering = begin(world, frame)
    try:
        state: SubscriptionState | None = world.subscriptions.find(name)
    except NotFound:
        state = None
    header, written, _ = await finish(world, answering, context)
    return header, written, state
