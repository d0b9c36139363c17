"""LeaseService: leases granted and revoked as ops, kept alive and listed as calls."""

import asyncio
from typing import Any, Final

from env_api.v1 import environment_service_pb2, lease_service_pb2
from google.protobuf.message import Message

from env_server.leases.leases import Kept, LeaseState
from env_server.model.errors import LimitExceeded, WorldError
from env_server.model.frames import Frame, Written
from env_server.model.names import ROOT, check_count
from env_server.model.operations import Code, GrantLease, RevokeLease
from env_server.pipeline import World
from env_server.rpc.edge import Context, Handler, abort, parse
from env_server.rpc.services.unary import decode_caller, execute, read_outcome
from env_server.worlds import Worlds

_SLICE_LEASES: Final = 2000
"""Encoded in one go."""


class LeaseService:
    """The rpcs of LeaseService."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds

    def handlers(self) -> dict[str, Handler]:
        """A handler for each rpc, by name."""
        return {
            "GrantLease": self._grant,
            "KeepLeasesAlive": self._keep,
            "RevokeLease": self._revoke,
            "ListLeases": self._list,
        }

    async def _grant(self, request: bytes, context: Context) -> bytes:
        message = parse(lease_service_pb2.GrantLeaseRequest, request)
        world = self._worlds.get(message.world)
        asked = GrantLease(message.ttl_ms, message.holder)
        header, written, duplicate = await _execute(world, message, Code.GRANT_LEASE, asked, context)
        return lease_service_pb2.GrantLeaseResponse(
            header=header, lease_id=written.revision, duplicate=duplicate
        ).SerializeToString()

    async def _revoke(self, request: bytes, context: Context) -> bytes:
        message = parse(lease_service_pb2.RevokeLeaseRequest, request)
        world = self._worlds.get(message.world)
        asked = RevokeLease(message.lease_id)
        header, _, duplicate = await _execute(world, message, Code.REVOKE_LEASE, asked, context)
        return lease_service_pb2.RevokeLeaseResponse(header=header, duplicate=duplicate).SerializeToString()

    async def _keep(self, request: bytes, _context: Context) -> bytes:
        message = parse(lease_service_pb2.KeepLeasesAliveRequest, request)
        world = self._worlds.get(message.world)
        answer: asyncio.Future[Kept] = asyncio.get_running_loop().create_future()
        world.leasing.keep(message.lease_ids, lambda kept: _resolve(answer, kept))
        kept = await answer
        return lease_service_pb2.KeepLeasesAliveResponse(
            header=_encode_header(world), lease_ids=kept.kept, ended=kept.ended
        ).SerializeToString()

    async def _list(self, request: bytes, _context: Context) -> bytes:
        message = parse(lease_service_pb2.ListLeasesRequest, request)
        world = self._worlds.get(message.world)
        response = lease_service_pb2.ListLeasesResponse()
        for index, state in enumerate(world.leasing.list_living(), 1):
            _encode_lease(state, response.leases.add())
            if index % _SLICE_LEASES == 0:  # there may be a hundred thousand
                await asyncio.sleep(0)
        seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        response.header.CopyFrom(_encode_header(world, world.revision))
        world.when_seen(lambda: _resolve(seen, None))
        await seen
        encoded = response.SerializeToString()
        if len(encoded) > world.limits.message_bytes_max:
            raise LimitExceeded("message_bytes_max", world.limits.message_bytes_max, len(encoded))
        return encoded


async def _execute(
    world: World, message: Message, code: Code, argument: object, context: Context
) -> tuple[environment_service_pb2.Header, Written, bool]:
    """Executes the op that a call asks for; what it wrote, and whether an earlier one did."""
    size_bytes = message.ByteSize()
    check_count(size_bytes, "frame_bytes_max", world.limits)
    frame = Frame([ROOT], [0], [""], [int(code)], [argument], size_bytes=size_bytes)
    if message.HasField("caller"):
        decode_caller(message.caller, frame, world.limits)  # type: ignore[attr-defined]
    remaining_s = context.time_remaining()
    if remaining_s is not None:
        frame.deadline_ns = world.clock.monotonic_ns() + int(remaining_s * 1e9)
    answer = await execute(world, frame)
    outcome, duplicate = read_outcome(answer)
    if isinstance(outcome, WorldError):
        await abort(context, outcome)
    return _encode_header(world, answer.revision), outcome, duplicate


def _resolve(answer: asyncio.Future[Any], found: Any) -> None:
    if not answer.done():  # done: the caller has gone
        answer.set_result(found)


def _encode_lease(state: LeaseState, message: lease_service_pb2.Lease) -> None:
    message.lease_id = state.id
    message.ttl_ms = state.ttl_ms
    message.holder = state.holder
    message.remaining_ms = state.remaining_ms
    message.entry_count = state.entries


def _encode_header(world: World, revision: int = 0) -> environment_service_pb2.Header:
    return environment_service_pb2.Header(
        world=world.name, history=world.history, revision=revision or world.durable_revision
    )
