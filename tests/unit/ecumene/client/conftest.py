"""A fake server, and a world connected to it that reconnects at once; a real one, for what a fake would only repeat."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from ecumene import ClientSettings, World, connect

from tests.services import ServerProcess
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


@pytest.fixture
def real_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A real server; tests may kill, pause and start it."""
    with ServerProcess(tmp_path / "data") as server:
        yield server


@pytest.fixture
async def real_world(real_server: ServerProcess) -> AsyncIterator[World]:
    """An open world of the real server, with an environment /room."""
    async with connect(real_server.address, settings=QUICK) as world:
        await world.environment("/room").register()
        yield world
