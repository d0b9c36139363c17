"""A fake server, and a world connected to it that reconnects at once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from ecumene import ClientSettings, World, connect

from tests.unit.ecumene.client.fake_server import FakeServer

QUICK = ClientSettings(backoff_first_ms=1, backoff_ms_max=5, reconnect_timeout_s=10)


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    """A server on a free port."""
    server = FakeServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def world(server: FakeServer) -> AsyncIterator[World]:
    """An open world."""
    async with connect(server.address, client_id="tester", settings=QUICK) as world:
        yield world
