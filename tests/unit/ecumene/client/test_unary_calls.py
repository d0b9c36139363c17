"""Calls outside the session: how soon a server is found again."""

from __future__ import annotations

import asyncio
import random

import ecumene
import pytest
from ecumene.client.settings import ClientSettings
from ecumene.client.unary_calls import UnaryCalls
from env_api.v1 import world_service_pb2, world_service_pb2_grpc


async def test_a_server_that_was_away_is_looked_for_as_often_as_the_settings_say() -> None:
    """gRPC's own waits double up to two minutes: so long failed the calls of a client that had polled, though the
    server was back, and the session with it."""
    looked_for = 0

    def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal looked_for
        looked_for += 1
        writer.close()

    listener = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    settings = ClientSettings(backoff_first_ms=50, backoff_ms_max=100)
    calls = UnaryCalls(f"{host}:{port}", settings, 4.0, random.Random(1))
    try:
        stub = world_service_pb2_grpc.WorldServiceStub(calls.channel)
        with pytest.raises(ecumene.ConnectionFailedError):
            await calls.call(stub.ListWorlds, world_service_pb2.ListWorldsRequest(), repeatable=True)
    finally:
        await calls.close()
        listener.close()
        await listener.wait_closed()
    assert looked_for >= 6, "by itself it looks three times in four seconds"
