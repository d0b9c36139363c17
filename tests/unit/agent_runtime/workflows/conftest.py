"""A real server, and a caller's place in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from ecumene import World, connect
from ecumene.workflows.messages import CALLS, flow_path, inbox_path, outcomes_path
from ecumene.workflows.world_link import make_places

from tests.services import ServerProcess


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a real server."""
    with ServerProcess(tmp_path_factory.mktemp("workflow_units") / "data") as server:
        yield server.address


@pytest.fixture
async def world(address: str, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A world of the test's own, with flow `f`, its caller `7`, and the inbox of host `ann`."""
    name = f"w{abs(hash(request.node.nodeid)) % 10**12}"
    async with connect(address, name, create=True) as world:
        await make_places(world)
        for path in (flow_path("f"), outcomes_path("f", "7"), inbox_path("ann")):
            await world.environment(path).register()
        await world.environment(inbox_path("ann")).create_stream(CALLS, items_max=1)
        await world.environment("/place").register()
        yield world
