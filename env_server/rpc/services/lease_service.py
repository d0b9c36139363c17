"""LeaseService: leases granted and revoked as ops, kept alive and listed as calls."""

import asyncio
from functools import partial
from typing import Final

from env_api.v1 import lease_service_pb2

from env_server.leases.leases import LeaseState
from env_server.model.errors import InvalidRequest, Reason
from env_server.model.operations import Code, GrantLease, RevokeLease
from env_server.rpc.edge import Context, Handler, parse
from env_server.rpc.encode.headers import encode_bounded, encode_header
from env_server.rpc.services.listings import ServicePage
from env_server.rpc.services.lone_ops import begin, called, finish, frame_of, see
from env_server.worlds import Worlds

_SLICE_LEASES: Final = 2000
"""Encoded in one go."""
_TOKEN_DIGITS_MAX: Final = 20


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
        world = await self._worlds.reach(message.world)
        asked = GrantLease(message.ttl_ms, message.holder)
        frame = frame_of(world, message, Code.GRANT_LEASE, asked, context)
        header, written, duplicate = await finish(world, begin(world, frame), context)
        return lease_service_pb2.GrantLeaseResponse(
            header=header, lease_id=written.revision, duplicate=duplicate
        ).SerializeToString()

    async def _revoke(self, request: bytes, context: Context) -> bytes:
        message = parse(lease_service_pb2.RevokeLeaseRequest, request)
        world = await self._worlds.reach(message.world)
        frame = frame_of(world, message, Code.REVOKE_LEASE, RevokeLease(message.lease_id), context)
        header, _, duplicate = await finish(world, begin(world, frame), context)
        return lease_service_pb2.RevokeLeaseResponse(header=header, duplicate=duplicate).SerializeToString()

    async def _keep(self, request: bytes, _context: Context) -> bytes:
        message = parse(lease_service_pb2.KeepLeasesAliveRequest, request)
        world = await self._worlds.reach(message.world)
        kept = await called(partial(world.leasing.keep, message.lease_ids))
        return lease_service_pb2.KeepLeasesAliveResponse(
            header=encode_header(world), lease_ids=kept.kept, ended=kept.ended
        ).SerializeToString()

    async def _list(self, request: bytes, _context: Context) -> bytes:
        message = parse(lease_service_pb2.ListLeasesRequest, request)
        world = await self._worlds.reach(message.world)
        page = ServicePage(world.limits, message.page_size)
        response = lease_service_pb2.ListLeasesResponse()
        for index, state in enumerate(world.leasing.list_living(_decode_token(message.page_token)), 1):
            encoded = _encode_lease(state)
            if not page.takes(encoded):
                response.next_page_token = str(response.leases[-1].lease_id)
                break
            response.leases.append(encoded)
            if index % _SLICE_LEASES == 0:
                await asyncio.sleep(0)
        response.header.CopyFrom(await see(world))
        return encode_bounded(response, world.limits)


def _decode_token(token: str) -> int:
    """The id of the lease told last; 0 = none yet."""
    if token and not (token.isascii() and token.isdecimal() and len(token) <= _TOKEN_DIGITS_MAX):
        raise InvalidRequest(Reason.INVALID_FIELD, "page_token", "is not one of this list")
    return int(token or 0)


def _encode_lease(state: LeaseState) -> lease_service_pb2.Lease:
    return lease_service_pb2.Lease(
        lease_id=state.id,
        ttl_ms=state.ttl_ms,
        holder=state.holder,
        remaining_ms=state.remaining_ms,
        entry_count=state.entries,
    )
