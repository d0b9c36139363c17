"""Opening and closing a world, and the public face of the package."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ecumene
import pytest
from ecumene import client

from tests.unit.ecumene.client.fake_server import FakeServer


async def test_a_world_is_opened_by_await_or_by_async_with(server: FakeServer) -> None:
    world = await ecumene.connect(server.address)
    await world.environment("/").set("a", 1.0)
    await world.close()
    await world.close()
    async with ecumene.connect(server.address, client_id="me") as again:
        assert (again.name, again.history, again.client_id, again.revision) == ("main", "h1", "me", 1)
    assert len({stream.hello.client_id for stream in server.streams}) == 2


async def test_settings_without_sense_are_refused_by_name() -> None:
    with pytest.raises(ecumene.InvalidArgumentError, match="backoff_first_ms"):
        ecumene.ClientSettings(backoff_first_ms=0)


@pytest.mark.parametrize("revision", [-1, 2**64, "7"])
async def test_a_watch_from_no_revision_is_refused(server: FakeServer, revision: Any) -> None:
    async with ecumene.connect(server.address) as world:
        with pytest.raises(ecumene.InvalidFieldError, match="watch"):
            world.watch(from_revision=revision)


def test_every_public_name_is_there_and_no_other() -> None:
    assert set(client.__all__) <= set(dir(ecumene))
    assert all(getattr(ecumene, name) is getattr(client, name) for name in client.__all__)
    assert sorted(client.__all__) == sorted(set(client.__all__))
    with pytest.raises(AttributeError, match="absent"):
        _ = ecumene.absent


def test_importing_the_package_loads_no_grpc_before_a_name_is_touched() -> None:
    code = "import sys, ecumene; assert 'grpc' not in sys.modules; ecumene.connect; assert 'grpc' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
