"""SubscriptionService: subscriptions as calls, consuming as a stream."""

import asyncio
import contextlib
from typing import Any

from env_api.v1 import environment_service_pb2, subscription_service_pb2
from google.protobuf.message import Message

from env_server.model.errors import LimitExceeded, NotFound, WorldError
from env_server.model.frames import Frame
from env_server.model.names import ROOT, check_count
from env_server.model.operations import Code
from env_server.model.subscriptions import DeleteSubscription, SeekSubscription, SubscriptionState
from env_server.model.watching import Delivery
from env_server.pipeline import World
from env_server.rpc.decode.subscriptions import check_name, decode_consume, decode_create
from env_server.rpc.decode.watches import check_history
from env_server.rpc.edge import Context, Handler, abort, parse
from env_server.rpc.encode.subscriptions import encode_consumed, encode_subscription
from env_server.rpc.services.live_calls import LiveCall
from env_server.rpc.services.unary import begin, decode_caller, read_outcome
from env_server.rpc.streams import Streams
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
        world = self._worlds.get(message.world)
        check_history(message.history, world.name, world.history)
        outstanding_max = decode_consume(message, world.limits)
        call = LiveCall(world)
        consumer = world.subscriptions.attach(message.name, message.consumer, outstanding_max)
        self._streams.add(call)
        try:
            name = f"consumer {message.consumer} of {message.name}"
            async with contextlib.aclosing(call.steps(consumer.next, name)) as steps:
                async for step in steps:
                    if step is None:
                        mark = consumer.mark()
                        if mark is None:
                            continue
                        step = Delivery(None, None, mark)
                    for part in encode_consumed(step, world.limits):
                        await context.write(part)
        finally:
            self._streams.discard(call)
            world.subscriptions.detach(message.name, consumer)

    async def _create(self, request: bytes, context: Context) -> bytes:
        message = parse(subscription_service_pb2.CreateSubscriptionRequest, request)
        world = self._worlds.get(message.world)
        asked = decode_create(message, world.limits)
        frame = _make_frame(world, message, Code.CREATE_SUBSCRIPTION, asked, context)
        header, written, state = await _execute(world, frame, message.name, context)
        return subscription_service_pb2.CreateSubscriptionResponse(
            header=header, subscription=state and encode_subscription(state), created=written.changed
        ).SerializeToString()

    async def _get(self, request: bytes, _context: Context) -> bytes:
        message = parse(subscription_service_pb2.GetSubscriptionRequest, request)
        world = self._worlds.get(message.world)
        check_name(message.name, world.limits)
        try:
            found: SubscriptionState | NotFound = world.subscriptions.find(message.name)
        except NotFound as absent:
            found = absent
        header = await _see(world)
        if isinstance(found, NotFound):
            raise found
        return subscription_service_pb2.GetSubscriptionResponse(
            header=header, subscription=encode_subscription(found)
        ).SerializeToString()

    async def _list(self, request: bytes, _context: Context) -> bytes:
        message = parse(subscription_service_pb2.ListSubscriptionsRequest, request)
        world = self._worlds.get(message.world)
        found = world.subscriptions.list()
        header = await _see(world)
        encoded = subscription_service_pb2.ListSubscriptionsResponse(
            header=header, subscriptions=[encode_subscription(state) for state in found]
        ).SerializeToString()
        if len(encoded) > world.limits.message_bytes_max:
            raise LimitExceeded("message_bytes_max", world.limits.message_bytes_max, len(encoded))
        return encoded

    async def _seek(self, request: bytes, context: Context) -> bytes:
        message = parse(subscription_service_pb2.SeekSubscriptionRequest, request)
        world = self._worlds.get(message.world)
        check_name(message.name, world.limits)
        asked = SeekSubscription(message.name, message.from_revision)
        frame = _make_frame(world, message, Code.SEEK_SUBSCRIPTION, asked, context)
        header, _, state = await _execute(world, frame, message.name, context)
        return subscription_service_pb2.SeekSubscriptionResponse(
            header=header, subscription=state and encode_subscription(state)
        ).SerializeToString()

    async def _delete(self, request: bytes, context: Context) -> bytes:
        message = parse(subscription_service_pb2.DeleteSubscriptionRequest, request)
        world = self._worlds.get(message.world)
        check_name(message.name, world.limits)
        frame = _make_frame(world, message, Code.DELETE_SUBSCRIPTION, DeleteSubscription(message.name), context)
        header, _, _ = await _execute(world, frame, message.name, context)
        return subscription_service_pb2.DeleteSubscriptionResponse(header=header).SerializeToString()

    async def _extend(self, request: bytes, _context: Context) -> bytes:
        message = parse(subscription_service_pb2.ExtendDeadlineRequest, request)
        world = self._worlds.get(message.world)
        check_name(message.name, world.limits)
        world.subscriptions.extend(message.name, message.term)
        return subscription_service_pb2.ExtendDeadlineResponse(header=_encode_header(world)).SerializeToString()


def _make_frame(world: World, message: Message, code: Code, argument: object, context: Context) -> Frame:
    """The frame of one op that a call asks for."""
    size_bytes = message.ByteSize()
    check_count(size_bytes, "frame_bytes_max", world.limits)
    frame = Frame([ROOT], [0], [""], [int(code)], [argument], size_bytes=size_bytes)
    if message.HasField("caller"):
        decode_caller(message.caller, frame, world.limits)  # type: ignore[attr-defined]
    remaining_s = context.time_remaining()
    if remaining_s is not None:
        frame.deadline_ns = world.clock.monotonic_ns() + int(remaining_s * 1e9)
    return frame


async def _execute(
    world: World, frame: Frame, name: str, context: Context
) -> tuple[environment_service_pb2.Header, Any, SubscriptionState | None]:
    """Executes it; what it wrote, and the subscription as it was right after, None if it was gone."""
    answering = begin(world, frame)
    try:
        state: SubscriptionState | None = world.subscriptions.find(name)
    except NotFound:
        state = None
    answer = await answering
    outcome, _ = read_outcome(answer)
    if isinstance(outcome, WorldError):
        await abort(context, outcome)
    return _encode_header(world, answer.revision), outcome, state


async def _see(world: World) -> environment_service_pb2.Header:
    """Waits until all that was seen by now is durable."""
    seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve() -> None:
        if not seen.done():  # done: the caller has gone
            seen.set_result(None)

    revision = world.revision
    world.when_seen(resolve)
    await seen
    return _encode_header(world, revision)


def _encode_header(world: World, revision: int = 0) -> environment_service_pb2.Header:
    return environment_service_pb2.Header(
        world=world.name, history=world.history, revision=revision or world.durable_revision
    )
