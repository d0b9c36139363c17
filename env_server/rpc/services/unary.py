"""The unary verbs: one op each, as a frame of its own through the same engine as a session's."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from env_api.v1 import environment_service_pb2 as service_pb2
from google.protobuf.message import Message

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.frames import Frame, Invoked, Transacted, Written
from env_server.model.limits import Limits
from env_server.model.names import ROOT, check_count
from env_server.model.operations import Precondition
from env_server.pipeline import World
from env_server.rpc.decode.callers import decode_caller
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
from env_server.rpc.edge import Context, Handler, parse
from env_server.rpc.encode.answers import encode_invoked, encode_transacted, encode_written
from env_server.rpc.encode.headers import encode_bounded
from env_server.rpc.encode.values import encode_read
from env_server.rpc.services.lone_ops import begin, finish, set_deadline
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
        world = await self._worlds.reach(message.world)
        check_count(len(request), "frame_bytes_max", world.limits)
        frame = decode_call(verb, message, world, context.time_remaining())
        frame.size_bytes = len(request)
        time_ns = world.timekeeping.tell_time(frame.paths[0])
        header, outcome, duplicate = await finish(world, begin(world, frame), context)
        if time_ns is not None:
            header.sim_time_ns = time_ns
        return encode_response(verb, header, outcome, duplicate, world.limits)


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
    set_deadline(frame, world, remaining_s)
    return frame


def encode_response(verb: Verb, header: service_pb2.Header, outcome: Any, duplicate: bool, limits: Limits) -> bytes:
    """The response with an op's outcome.

    Raises:
        LimitExceeded: message_bytes_max, which a smaller page avoids.
    """
    response: Message
    if isinstance(outcome, Written):
        response = verb.response(header=header, written=encode_written(outcome), duplicate=duplicate)
    elif isinstance(outcome, Invoked):
        response = verb.response(header=header, result=encode_invoked(outcome), duplicate=duplicate)
    elif isinstance(outcome, Transacted):
        response = verb.response(header=header, result=encode_transacted(outcome), duplicate=duplicate)
    else:
        response = verb.response(header=header, result=encode_read(outcome))
    return encode_bounded(response, limits)
