"""Ops that come alone: the only op of a call is a frame of its own, and takes the way of a session's frames."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from env_api.v1 import environment_service_pb2
from google.protobuf.message import Message

from env_server.model.errors import WorldError
from env_server.model.frames import Answer, Frame, Listed, Written
from env_server.model.names import ROOT, check_count
from env_server.model.operations import Code
from env_server.pipeline import World
from env_server.rpc.decode.callers import decode_caller
from env_server.rpc.edge import Context, abort
from env_server.rpc.encode.headers import encode_header

T = TypeVar("T")


def frame_of(
    world: World,
    message: Message,
    code: Code,
    argument: object,
    context: Context,
    path: str = ROOT,
    key: str = "",
) -> Frame:
    """The frame of one op, by default without a place, which a call with a `caller` asks for.

    Raises:
        InvalidRequest, LimitExceeded.
    """
    size_bytes = message.ByteSize()
    check_count(size_bytes, "frame_bytes_max", world.limits)
    frame = Frame([path], [0], [key], [int(code)], [argument], size_bytes=size_bytes)
    if message.HasField("caller"):
        decode_caller(message.caller, frame, world.limits)  # type: ignore[attr-defined]
    set_deadline(frame, world, context.time_remaining())
    return frame


def set_deadline(frame: Frame, world: World, remaining_s: float | None) -> None:
    """The op is given up when the call's time is over, if it has not begun by then; None = the call has no end."""
    if remaining_s is not None:
        frame.deadline_ns = world.clock.monotonic_ns() + int(remaining_s * 1e9)


def begin(world: World, frame: Frame) -> asyncio.Future[Answer]:
    """Executes a frame of one op; the future gets the part of the answer that holds its outcome."""
    done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def deliver(answer: Answer) -> None:
        if not answer.pending and not done.done():  # done already: the caller has gone, the op has not
            done.set_result(answer)

    world.execute(frame, deliver)
    return done


def read_outcome(answer: Answer) -> tuple[Any, bool]:
    """The outcome of the answer's only op, and whether it is that of an earlier one."""
    if answer.outcomes:
        listed: Listed = answer.outcomes[0]
        return listed.outcome, listed.duplicate
    changed = not answer.without_revision
    version = answer.versions[0] if answer.versions else 0
    return Written(answer.base_revision + changed, version, changed=changed), False


async def finish(
    world: World, answering: "asyncio.Future[Answer]", context: Context
) -> tuple[environment_service_pb2.Header, Any, bool]:
    """Waits for an op that has begun: the response's header, the outcome, and whether that is an earlier op's.

    Raises:
        grpc.aio.AbortError: the op failed; the call has been ended with its error's status.
    """
    answer = await answering
    outcome, duplicate = read_outcome(answer)
    if isinstance(outcome, WorldError):
        # Not raised: it is kept by the engine for repetitions, and would collect a traceback each time.
        await abort(context, outcome)
    return encode_header(world, answer.revision), outcome, duplicate


async def see(world: World) -> environment_service_pb2.Header:
    """Waits until all that was seen by now is durable; the header of an answer that rests on it."""
    revision = world.revision
    seen: asyncio.Future[None] = called(lambda call: world.when_seen(lambda: call(None)))
    await seen
    return encode_header(world, revision)


def called(begin: Callable[[Callable[[T], None]], None]) -> "asyncio.Future[T]":
    """Gives `begin` a callback; the future gets what that is called with, unless nobody waits any more."""
    done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def resolve(found: T) -> None:
        if not done.done():  # done: the caller has gone
            done.set_result(found)

    begin(resolve)
    return done
