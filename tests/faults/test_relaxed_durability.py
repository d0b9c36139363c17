"""A server that answers before it commits: what a kill takes back is the end, and nobody takes what follows for it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import ecumene
import pytest
from ecumene.client import ClientSettings, HistoryMismatchError

from tests.services import ServerProcess

CLIENTS = 4
KILLS = 4
KILLS_LONG = 40
OPS_BEFORE_A_KILL = 200
SETTINGS = ClientSettings(backoff_first_ms=10, backoff_ms_max=200, reconnect_timeout_s=30)


class Load:
    """One client that moves amounts between two keys and counts, op after op, until the server dies."""

    def __init__(self, name: str, world: ecumene.client.World) -> None:
        self.name = name
        self.world = world
        self.issued = self.acknowledged = 0

    async def run(self) -> None:
        place = self.world.environment("/load")
        while True:
            self.issued += 1
            move = self.world.transaction().increment("/load", f"{self.name}-from", -self.issued)
            move.increment("/load", f"{self.name}-to", self.issued)
            await asyncio.gather(place.append(f"{self.name}-log", self.issued), move.commit())
            self.acknowledged = self.issued


def test_a_killed_server_has_lost_the_end_and_begins_a_new_history(tmp_path: Path, seed: int) -> None:
    asyncio.run(run_kills(tmp_path / "data", KILLS, random.Random(seed)))


@pytest.mark.long
def test_forty_killed_servers_have_lost_the_end_and_begin_new_histories(tmp_path: Path, seed: int) -> None:
    asyncio.run(run_kills(tmp_path / "data", KILLS_LONG, random.Random(seed)))


async def run_kills(directory: Path, kills: int, chance: random.Random) -> None:
    histories = []
    with ServerProcess(directory, "--durability", "relaxed") as server:
        for number in range(kills):
            histories.append(await one_life(server, f"/round-{number}", chance))
            server.start()
        histories.append(await read_history(server))
        assert len(set(histories)) == kills + 1
        assert server.stop() == 0
        server.start()
        assert await read_history(server) == histories[-1], "a clean stop loses nothing"


async def read_history(server: ServerProcess) -> str:
    async with ecumene.connect(server.address) as world:
        return world.history


async def one_life(server: ServerProcess, mark: str, chance: random.Random) -> str:
    """Load, a kill in the middle, a restart; checks what is left. Returns the history that died."""
    worlds = [await ecumene.connect(server.address, settings=SETTINGS) for _ in range(CLIENTS)]
    history = worlds[0].history
    place = worlds[0].environment("/load")
    await place.register(if_absent=True)
    loads = [Load(f"{mark[1:]}-c{number}", world) for number, world in enumerate(worlds)]
    for load in loads:
        await place.create_stream(f"{load.name}-log", items_max=1_000_000)
    tasks = [asyncio.create_task(load.run(), name=load.name) for load in loads]
    before = OPS_BEFORE_A_KILL + chance.randrange(100)
    while sum(load.acknowledged for load in loads) < before:
        await asyncio.sleep(0.001)
        assert not any(task.done() for task in tasks)
    server.kill()
    server.start()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(end, HistoryMismatchError) for end in ends), ends
    await check_left(server, loads)
    server.kill()
    for world in worlds:
        await world.close()
    return history


async def check_left(server: ServerProcess, loads: list[Load]) -> None:
    """Of each client there is a beginning, without holes; of each transaction all or nothing."""
    async with ecumene.connect(server.address) as world:
        place = world.environment("/load")
        for load in loads:
            items = await read_all(place, f"{load.name}-log")
            assert items == list(range(1, len(items) + 1))
            assert len(items) <= load.issued
            moved = await place.value(f"{load.name}-to", 0)
            assert await place.value(f"{load.name}-from", 0) == -moved
            assert moved in {count * (count + 1) // 2 for count in range(load.issued + 1)}


async def read_all(place: ecumene.client.Environment, key: str) -> list[object]:
    items: list[object] = []
    while page := (await place.read_stream(key, from_sequence=len(items) + 1)).items:
        items += [item.value for item in page]
    return items
