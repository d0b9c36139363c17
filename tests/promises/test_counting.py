"""64 clients count to 64,000 on one entry: by read-modify-write, by counter, by behaviour. P1, P2, P5, P6."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import ecumene
import pytest
from ecumene.client import Environment, PreconditionFailedError

from tests.services import ServerProcess

CLIENTS = 64
EACH = 1000
WINDOW = 50
BACKOFF_S = 0.3


async def by_counter(place: Environment, count: int) -> None:
    for _ in range(count // WINDOW):
        await asyncio.gather(*[place.increment("counter", 1) for _ in range(WINDOW)])


async def by_behaviour(place: Environment, count: int) -> None:
    for _ in range(count // WINDOW):
        await asyncio.gather(*[place.invoke("count") for _ in range(WINDOW)])


async def by_read_modify_write(place: Environment, count: int) -> None:
    """One client at a time succeeds; the others wait a random moment, as anybody should."""
    chance = random.Random(id(place))
    done = 0
    while done < count:
        entry = await place.get("value")
        assert isinstance(entry.value, int)
        try:
            await place.set("value", entry.value + 1, expect_version=entry.version)
        except PreconditionFailedError:
            await asyncio.sleep(chance.uniform(0, BACKOFF_S))
            continue
        done += 1


async def count_together(server: ServerProcess, count: int, way: Callable[[Environment, int], Awaitable[None]]) -> None:
    """All clients at once, each on a connection of its own."""
    worlds = await asyncio.gather(*[open_world(server) for _ in range(CLIENTS)])
    try:
        await asyncio.gather(*[way(world.environment("/tally"), count) for world in worlds])
    finally:
        await asyncio.gather(*[world.close() for world in worlds])


async def open_world(server: ServerProcess) -> ecumene.client.World:
    return await ecumene.connect(server.address, timeout_s=60)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("way", "key", "count"),
    [
        (by_counter, "counter", EACH),
        (by_behaviour, "total", EACH // 5),
        (by_read_modify_write, "value", EACH // 80),
        pytest.param(by_behaviour, "total", EACH, marks=pytest.mark.long),
        pytest.param(by_read_modify_write, "value", EACH, marks=pytest.mark.long),
    ],
)
async def test_no_increment_of_64_clients_is_lost(
    tmp_path: Path, way: Callable[[Environment, int], Awaitable[None]], key: str, count: int
) -> None:
    with ServerProcess(tmp_path / "data", "--behaviour", "tests.promises.tally:Tally") as server:
        async with ecumene.connect(server.address) as world:
            place = world.environment("/tally")
            await place.register(kind="tally")
            await place.set("value", 0)
            before = world.revision
            await count_together(server, count, way)
            entry = await place.get(key)
            assert entry.value == CLIENTS * count
            assert entry.version == CLIENTS * count + (key == "value")
            # Every increment is one revision and nothing else took one.
            assert entry.modify_revision == before + CLIENTS * count
        assert server.stop() == 0
