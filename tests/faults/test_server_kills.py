"""Servers that are killed, stopped, paused and doubled under load: nothing acknowledged is lost, nothing is half there.

P7, P8, P9 and P10 over a real network and a real disk. A round with too little load fails.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ecumene
import pytest
from ecumene.client import ClientSettings, EntryNotFoundError, EventBatch

from env_server.diagnostics.failpoints import WRITER_PLACES
from tests.services import NotReadyError, ServerProcess

CLIENTS = 4
OPS_BEFORE_A_KILL = 150
KILLS = 5
KILLS_LONG = 50
KILLS_AT_PLACES = 10
KILLS_AT_PLACES_LONG = 200
COMMITS_BEFORE_A_KILL = 40
"""At a named place at least so many commits after the start; a life with less load is no test."""
SETTINGS = ClientSettings(backoff_first_ms=10, backoff_ms_max=200, reconnect_timeout_s=60)


class Load:
    """One client that writes counters, a value under its own producer, a stream, and transactions over two keys."""

    def __init__(self, name: str, world: ecumene.client.World) -> None:
        self.name = name
        self.world = world
        self.issued = 0
        self.acknowledged = 0
        self.revision = 0
        self.wants_more = True
        self.progress = asyncio.Event()

    async def run(self) -> None:
        """Rounds of one op of each kind in flight together, until told to stop; every one must succeed."""
        place = self.world.environment("/load")
        while self.wants_more:
            self.issued += 1
            number = self.issued
            move = self.world.transaction().increment("/load", f"{self.name}-from", -number)
            move.increment("/load", f"{self.name}-to", number)
            done: Any = await asyncio.gather(
                place.increment("shared", 1),
                place.increment(f"{self.name}-own", 1),
                place.set(f"{self.name}-value", number, producer=f"producer-{self.name}", seq=number),
                place.append("log", f"{self.name}:{number}"),
                move.commit(),
            )
            self.revision = max(self.revision, *(one.revision for one in done))
            self.acknowledged = number
            self.progress.set()


class Watched:
    """All events of one watch, over all lives of the server."""

    def __init__(self, world: ecumene.client.World) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.through = 0
        self.frames = world.watch_frames(from_revision=1)

    async def read_through(self, revision: int) -> None:
        """Returns when everything up to the revision was told."""
        while self.through < revision:
            self.take(await anext(self.frames))

    def take(self, batch: EventBatch) -> None:
        self.events += [
            (event.revision, event.type, event.path, event.key, event.value, event.version) for event in batch
        ]
        self.through = max(self.through, batch.through_revision)


Restart = Callable[[], object]
"""Starts the server, perhaps so that it ends by itself later."""


def restart_with_failpoints(server: ServerProcess, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> Restart:
    """Every second life ends by itself, at a named place in the middle of a commit; all places have their turn."""
    places = itertools.cycle(chance.sample(sorted(WRITER_PLACES), len(WRITER_PLACES)))
    lives = itertools.count()

    def start() -> None:
        count = COMMITS_BEFORE_A_KILL + chance.randrange(100)
        at_a_place = next(lives) % 5 != 0
        monkeypatch.setenv("FAILPOINT", f"{next(places)}:kill:{count}" if at_a_place else "")
        server.start()

    return start


async def run_rounds(server: ServerProcess, kills: int, chance: random.Random, restart: Restart | None = None) -> None:
    restart = restart or server.start
    async with asyncio.timeout(kills * 30 + 60):
        worlds = [await ecumene.connect(server.address, settings=SETTINGS) for _ in range(CLIENTS + 1)]
        observer = worlds.pop()
        await observer.environment("/load").register()
        await observer.environment("/load").create_stream("log", items_max=1_000_000)
        watched = Watched(observer)
        loads = [Load(f"c{number}", world) for number, world in enumerate(worlds)]
        tasks = [asyncio.create_task(load.run(), name=f"load {load.name}") for load in loads]
        try:
            for _ in range(kills):
                await one_round(server, loads, tasks, chance, restart)
            for load in loads:
                load.wants_more = False
            await asyncio.gather(*tasks)
            await check_totals(observer, loads)
            await check_watch(observer, watched)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for world in (*worlds, observer):
                await world.close()


async def one_round(
    server: ServerProcess,
    loads: list[Load],
    tasks: list[asyncio.Task[None]],
    chance: random.Random,
    restart: Restart,
) -> None:
    """Load, a kill at a random moment, a restart; then what a newcomer sees before anything else."""
    before = sum(load.acknowledged for load in loads)
    while 5 * (sum(load.acknowledged for load in loads) - before) < OPS_BEFORE_A_KILL and server.is_alive:
        for load in loads:
            load.progress.clear()
        waits = [asyncio.create_task(load.progress.wait(), name="progress") for load in loads]
        done, _ = await asyncio.wait([*waits, *tasks], timeout=30, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        assert done or not server.is_alive, "a round with too little load shows nothing"
        for task in tasks:
            if task.done():
                task.result()
    await asyncio.sleep(chance.uniform(0, 0.1))  # the moment of the fault
    history = loads[0].world.history
    await end_life(server)
    acknowledged = [(load.name, load.acknowledged) for load in loads]
    revision = max(load.revision for load in loads)
    await asyncio.to_thread(restart)
    async with ecumene.connect(server.address, settings=SETTINGS) as newcomer:
        assert newcomer.history == history
        assert newcomer.revision >= revision, "revisions go on"
        for name, count in acknowledged:
            await check_survivors(newcomer, name, count)


async def end_life(server: ServerProcess) -> None:
    """A kill, unless the server is to end, or has ended, at a place of its own."""
    if not os.environ.get("FAILPOINT"):
        server.kill()
        return
    assert await asyncio.to_thread(server.wait) == -signal.SIGKILL


async def check_survivors(world: ecumene.client.World, name: str, count: int) -> None:
    """All five ops of each acknowledged number are there, and transactions are whole."""
    frame = world.frame()
    for key in ("own", "value", "from", "to"):
        frame.get("/load", f"{name}-{key}")
    result = await world.frames.send(frame)
    seen = []
    for index in range(4):
        try:
            seen.append(result.outcome_of(index).value)  # type: ignore[union-attr]
        except EntryNotFoundError:
            seen.append(0)
    own, value, out, into = seen
    assert own >= count
    assert value >= count
    assert out == -into, "a transaction is half there"
    assert into >= count * (count + 1) // 2


async def check_totals(world: ecumene.client.World, loads: list[Load]) -> None:
    """Everything was executed once, although much was sent twice."""
    place = world.environment("/load")
    issued = sum(load.issued for load in loads)
    assert await place.value("shared") == issued
    items: list[Any] = []
    while page := (await place.read_stream("log", from_sequence=len(items) + 1)).items:
        items += page
    assert [item.sequence for item in items] == list(range(1, issued + 1))
    for load in loads:
        own = [item.value for item in items if item.value.startswith(f"{load.name}:")]
        assert own == [f"{load.name}:{number}" for number in range(1, load.issued + 1)], "in send order, once each"
        assert await place.value(f"{load.name}-own") == load.issued
        assert await place.value(f"{load.name}-to") == load.issued * (load.issued + 1) // 2
        kept = await place.get(f"{load.name}-value")
        assert (kept.value, kept.version) == (load.issued, load.issued)
        again = await place.set(f"{load.name}-value", -1, producer=f"producer-{load.name}", seq=load.issued)
        assert (again.revision, again.version) == (kept.modify_revision, kept.version), "the first outcome"
        assert await place.value(f"{load.name}-value") == load.issued


async def check_watch(world: ecumene.client.World, watched: Watched) -> None:
    """What the watch told over all kills is the history, as a watch that begins now replays it."""
    revision = (await world.environment("/load").set("end", True)).revision
    await watched.read_through(revision)
    replayed = Watched(world)
    await replayed.read_through(revision)
    assert watched.events == replayed.events
    revisions = [event[0] for event in watched.events]
    assert revisions == sorted(revisions)
    assert set(revisions) == set(range(1, revision + 1)), "no gap"
    await watched.frames.aclose()
    await replayed.frames.aclose()


@pytest.mark.timeout(240)
async def test_kills_under_load_lose_nothing_and_double_nothing(tmp_path: Path, seed: int) -> None:
    with ServerProcess(tmp_path / "data") as server:
        await run_rounds(server, KILLS, random.Random(seed))


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_fifty_kills_under_load_lose_nothing_and_double_nothing(tmp_path: Path, seed: int) -> None:
    with ServerProcess(tmp_path / "data") as server:
        await run_rounds(server, KILLS_LONG, random.Random(seed))


async def kill_at_places(directory: Path, kills: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    server = ServerProcess(directory)
    restart = restart_with_failpoints(server, chance, monkeypatch)
    with server:
        await run_rounds(server, kills, chance, restart)


@pytest.mark.timeout(240)
async def test_kills_in_the_middle_of_commits_lose_nothing_and_double_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kill_at_places(tmp_path / "data", KILLS_AT_PLACES, seed, monkeypatch)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_two_hundred_kills_in_the_middle_of_commits_lose_nothing_and_double_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kill_at_places(tmp_path / "data", KILLS_AT_PLACES_LONG, seed, monkeypatch)


async def test_a_restart_in_order_fails_no_call_in_the_view_of_the_sdk(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        worlds = [await ecumene.connect(server.address, settings=SETTINGS) for _ in range(CLIENTS)]
        await worlds[0].environment("/load").register()
        loads = [Load(f"c{number}", world) for number, world in enumerate(worlds)]
        tasks = [asyncio.create_task(load.run(), name=f"load {load.name}") for load in loads]
        for _ in range(2):
            reached = [load.acknowledged + 20 for load in loads]
            await wait_for(loads, reached)
            server.terminate()
            assert await asyncio.to_thread(server.wait) == 0
            await asyncio.to_thread(server.start)
            await wait_for(loads, [load.acknowledged + 5 for load in loads])
        for load in loads:
            load.wants_more = False
        await asyncio.gather(*tasks)
        assert await worlds[0].environment("/load").value("shared") == sum(load.issued for load in loads)
        for world in worlds:
            await world.close()
        assert server.stop() == 0
        assert "Traceback" not in server.log_path.read_text()


async def wait_for(loads: list[Load], numbers: list[int]) -> None:
    """Until each client has so many acknowledged."""
    async with asyncio.timeout(60):
        for load, number in zip(loads, numbers, strict=True):
            while load.acknowledged < number:
                load.progress.clear()
                await load.progress.wait()


async def test_a_paused_server_goes_on_where_it_stood(tmp_path: Path) -> None:
    settings = ClientSettings(backoff_first_ms=10, backoff_ms_max=200, heartbeats_missed_max=1)
    with ServerProcess(tmp_path / "data") as server:
        async with ecumene.connect(server.address, settings=settings) as world:
            place = world.environment("/")
            await place.increment("n", 1)
            watched = Watched(world)
            server.pause()
            calls = [asyncio.create_task(place.increment("n", 1), name="call") for _ in range(50)]
            done, _ = await asyncio.wait(calls, timeout=6)
            server.resume()
            assert not done
            results = await asyncio.gather(*calls)
            assert [one.value for one in results] == list(range(2, 52))
            await watched.read_through(results[-1].revision)
            assert [event[4] for event in watched.events if event[3] == "n"] == list(range(1, 52))


def test_a_second_server_on_the_directory_is_refused(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        second = ServerProcess(tmp_path / "data")
        with pytest.raises(NotReadyError) as caught, second:
            pass
        assert caught.value.exit_code == 1
        last = caught.value.log.strip().splitlines()[-1]
        assert last.startswith("error: ")
        assert "Traceback" not in caught.value.log
        assert server.stop() == 0


def test_a_second_server_on_the_port_is_refused(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        second = ServerProcess(tmp_path / "other", port=server.port)
        with pytest.raises(NotReadyError) as caught, second:
            pass
        assert caught.value.exit_code == 1
        assert str(server.port) in caught.value.log
        assert "Traceback" not in caught.value.log
