"""The unary verbs: one op each, as a frame of its own through the same engine as a session's."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from env_api.v1 import environment_service_pb2 as service_pb2
from google.protobuf.message import Message

from env_server.model.errors import InvalidRequest, LimitExceeded, Reason, WorldError
from env_server.model.frames import Answer, Frame, Invoked, Listed, Transacted, Written
from env_server.model.limits import Limits
from env_server.model.names import ROOT, check_count, check_identity
from env_server.model.operations import Precondition
from env_server.model.views import check_group
from env_server.pipeline import World
from env_server.rpc.decode.frames import check_cause
from env_server.rpc.decode.ops import (
    Decoded,
    decode_delete,
    decode_invoke,
    decode_preconditions,
    decode_query,
    decode_register,
    decode_transact,
    decode_update,
)
from env_server.rpc.decode.request_ids import name_request
from env_server.rpc.edge import Context, Handler, abort, parse
from env_server.rpc.encode.answers import encode_invoked, encode_transacted, encode_written
from env_server.rpc.encode.values import encode_read
from env_server.worlds import Worlds


class Verb(NamedTuple):
    """What one rpc differs in: its messages, the field that holds the op, and how that is read."""

    request: Any
    response: Any
    field: str
    decode: Callable[[Any, str, Limits], Decoded]


VERBS: Final[dict[str, Verb]] = {
    "Register": Verb(service_pb2.RegisterRequest, service_pb2.RegisterResponse, "register", decode_register),
    "Query": Verb(service_pb2.QueryRequest, service_pb2.QueryResponse, "query", decode_query),
    "Update": Verb(service_pb2.UpdateRequest, service_pb2.UpdateResponse, "update", decode_update),
    "Delete": Verb(service_pb2.DeleteRequest, service_pb2.DeleteResponse, "delete", decode_delete),
    "Invoke": Verb(service_pb2.InvokeRequest, service_pb2.InvokeResponse, "invoke", decode_invoke),
    "Transact": Verb(service_pb2.TransactRequest, service_pb2.TransactResponse, "transact", decode_transact),
}


class UnaryService:
    """The unary rpcs of EnvironmentService."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds

    def handlers(self) -> dict[str, Handler]:
        """A handler for each unary rpc, by name."""
        return {name: partial(self._call, verb) for name, verb in VERBS.items()}

    async def _call(self, verb: Verb, request: bytes, context: Context) -> bytes:
        """Executes the op; returns when everything the answer rests on is durable.

        A cancelled call does not cancel the op. Raises: WorldError.
        """
        message = parse(verb.request, request)
        world = self._worlds.get(message.world)
        check_count(len(request), "frame_bytes_max", world.limits)
        frame = decode_call(verb, message, world, context.time_remaining())
        frame.size_bytes = len(request)
        answer = await execute(world, frame)
        outcome, duplicate = read_outcome(answer)
        if isinstance(outcome, WorldError):
            # Not raised: it is kept by the engine for repetitions, and would collect a traceback each time.
            await abort(context, outcome)
        return encode_response(verb, world, answer.revision, outcome, duplicate)


def decode_call(verb: Verb, message: Any, world: World, remaining_s: float | None) -> Frame:
    """The frame of one op that a unary request asks for.

    Its identity, when the caller names one, is that of an op with its own producer, so that the same producer is
    recognised in calls and in sessions.

    Raises:
        WorldError: what is wrong with the request.
    """
    path = getattr(message, "path", ROOT)
    key = getattr(message, "key", "")
    if not message.HasField(verb.field):
        raise InvalidRequest(Reason.INVALID_FIELD, verb.field, "must be set")
    code, argument = verb.decode(getattr(message, verb.field), key, world.limits)
    frame = Frame([path], [0], [key], [int(code)], [argument], return_versions=True)
    conditions: tuple[Precondition, ...] = decode_preconditions(getattr(message, "preconditions", ()), world.limits)
    if conditions:
        frame.preconditions = {0: conditions}
    if message.HasField("caller"):
        decode_caller(message.caller, frame, world.limits)
    if remaining_s is not None:
        frame.deadline_ns = world.clock.monotonic_ns() + int(remaining_s * 1e9)
    return frame


def decode_caller(caller: service_pb2.Caller, frame: Frame, limits: Limits) -> None:
    """Who asks, from the wire: identity, group, actor and cause of the frame's only op.

    Raises:
        InvalidRequest, LimitExceeded.
    """
    if caller.group:
        check_group(caller.group, limits, "caller.group")
        frame.groups = [caller.group]
    if bool(caller.producer) != bool(caller.producer_seq):
        raise InvalidRequest(Reason.INVALID_FIELD, "caller.producer", "producer and producer_seq go together")
    if caller.producer:
        check_identity(caller.producer, "caller.producer")
        frame.producers, frame.producer_seqs = [caller.producer], [caller.producer_seq]
    if caller.request_id:
        if caller.producer:
            raise InvalidRequest(
                Reason.INVALID_FIELD, "caller.request_id", "is the identity of callers without a producer"
            )
        name_request(frame, caller.request_id)
    if caller.actor:
        check_identity(caller.actor, "caller.actor")
        frame.actors = [caller.actor]
    if caller.cause:
        check_cause(caller.cause)
        frame.causes = [caller.cause]


async def execute(world: World, frame: Frame) -> Answer:
    """Executes a frame of one op and waits for the part of the answer that holds its outcome."""
    return await begin(world, frame)


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


def encode_response(verb: Verb, world: World, revision: int, outcome: Any, duplicate: bool) -> bytes:
    """The response with an op's outcome.

    Raises:
        LimitExceeded: message_bytes_max, which a smaller page avoids.
    """
    header = service_pb2.Header(world=world.name, history=world.history, revision=revision)
    response: Message
    if isinstance(outcome, Written):
        response = verb.response(header=header, written=encode_written(outcome), duplicate=duplicate)
    elif isinstance(outcome, Invoked):
        response = verb.response(header=header, result=encode_invoked(outcome), duplicate=duplicate)
    elif isinstance(outcome, Transacted):
        response = verb.response(header=header, result=encode_transacted(outcome), duplicate=duplicate)
    else:
        response = verb.response(header=header, result=encode_read(outcome))
    encoded = response.SerializeToString()
    if len(encoded) > world.limits.message_bytes_max:
        raise LimitExceeded("message_bytes_max", world.limits.message_bytes_max, len(encoded))
    return encoded
