"""Thousands of calls in one moment are all answered: none is dropped by the transport without a reason."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
from env_api.v1 import lease_service_pb2 as leases

from tests.raw_client import decode_call_error
from tests.services import ServerProcess

CALLS = 6000
CHANNELS = 3


async def call(channel: grpc.aio.Channel, method: str, request: Any, response: Any) -> Any:
    """The response; as text, how it failed."""
    try:
        name = f"/env_api.v1.LeaseService/{method}"
        return await channel.unary_unary(name, request.SerializeToString, response.FromString)(request, timeout=60)
    except grpc.aio.AioRpcError as error:
        return decode_call_error(error).reason or error.code().name


async def test_a_crowd_of_calls_is_answered_call_by_call(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.aio.insecure_channel(server.address, options=options) for _ in range(CHANNELS)]

        async def ask_all(method: str, requests: list[Any], response: Any) -> list[Any]:
            asked = enumerate(requests)
            return await asyncio.gather(*(call(channels[i % CHANNELS], method, one, response) for i, one in asked))

        asked: list[Any] = [leases.GrantLeaseRequest(ttl_ms=600_000) for _ in range(CALLS)]
        granted = await ask_all("GrantLease", asked, leases.GrantLeaseResponse)
        assert {one for one in granted if isinstance(one, str)} == set()
        ids = {one.lease_id for one in granted}
        assert len(ids) == CALLS
        asked = [leases.RevokeLeaseRequest(lease_id=id_) for id_ in ids]
        revoked = await ask_all("RevokeLease", asked, leases.RevokeLeaseResponse)
        assert {one for one in revoked if isinstance(one, str)} == set()
        left = await call(channels[0], "ListLeases", leases.ListLeasesRequest(), leases.ListLeasesResponse)
        assert not left.leases
        for channel in channels:
            await channel.close()
        assert server.stop() == 0
