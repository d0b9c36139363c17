"""Listeners over kills: each event has its effect once and in order, whatever is killed, and nobody waits for it."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path
from typing import Any

import ecumene
import pytest
from ecumene.client import ClientSettings, EventFilter

from env_server.diagnostics.failpoints import WRITER_PLACES
from env_server.model.changes import EventType
from env_server.pipeline.listeners.positions import Positions
from env_server.testing import BehaviourStand, behaviour_stand
from tests.engine import put
from tests.faults.hearing_behaviour import Hearing
from tests.services import NotReadyError, ServerProcess

SETTINGS = ClientSettings(backoff_first_ms=10, backoff_ms_max=200, reconnect_timeout_s=60)
PLACES = 4
WRITES = 60
RUNS = 40
RUNS_LONG = 1500


def check_once(sets: list[tuple[str, Any]], heard: list[Any], echoes: list[Any], count: Any) -> None:
    """What was written, what the first listener wrote down of it, and what the second made of that."""
    assert [(item["id"], item["value"]) for item in heard] == sets
    assert echoes == [value for _, value in sets]
    assert (count or 0) == len(sets)


def run_kills(chance: random.Random) -> int:
    """Writes and kills after any number of steps, on a simulated clock; how many kills hit work under way."""
    hits = 0
    with behaviour_stand(Hearing) as stand:
        paths = [f"/e{number}" for number in range(3)]
        for path in paths:
            stand.register(path, kind="hearing")
        for number in range(chance.randint(5, 25)):
            ops = [put(chance.choice(paths), "in", 100 * number + index) for index in range(chance.randint(1, 8))]
            stand.engine.send(*ops)
            clock = stand.engine.clock
            if chance.random() < 0.5:
                for _ in range(chance.randrange(12)):
                    clock.step()
                hits += not clock.idle
                stand.kill_and_restart()
            elif chance.random() < 0.5:
                clock.settle()
            else:
                clock.advance(chance.choice((0.001, 0.002, 0.01)))
        stand.advance(60.0)
        for path in paths:
            check_stand(stand, path)
        assert not stand.failures()
    return hits


def check_stand(stand: BehaviourStand, path: str) -> None:
    sets = [(one.id, one.value) for one in stand.events(path, EventType.ENTRY_SET)]
    check_once(sets, stand.items(path, "heard"), stand.items(path, "echoes"), stand.get(path, "count"))
    for told in stand.events(path, EventType.ENTRY_APPENDED):
        if told.key == "heard":
            assert told.cause == told.value["id"] and told.depth == 1
        else:
            assert told.depth == 2


def test_kills_after_any_step_double_and_lose_nothing(seed: int) -> None:
    assert sum(run_kills(random.Random(f"{seed}/{number}")) for number in range(RUNS)) > RUNS


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_many_kills_after_any_step_double_and_lose_nothing(seed: int) -> None:
    assert sum(run_kills(random.Random(f"{seed}/{number}")) for number in range(RUNS_LONG)) > RUNS_LONG


def test_a_planted_bug_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A position that is not committed with its effect: the effect is doubled by some kill."""
    monkeypatch.setattr(Positions, "heard", lambda self, ear, had_effect: None)
    with pytest.raises(AssertionError):
        for number in range(RUNS):
            run_kills(random.Random(number))


async def write(server: ServerProcess, rounds: int) -> None:
    """Writes to all places; the server may be killed and come back meanwhile."""
    async with ecumene.connect(server.address, settings=SETTINGS) as world:
        places = [world.environment(f"/h{number}") for number in range(PLACES)]
        for number in range(rounds):
            await asyncio.gather(*(place.set("in", number) for place in places))


async def check_server(server: ServerProcess, rounds: int) -> None:
    """Waits until all was heard; then every event had its effect once, in order."""
    async with ecumene.connect(server.address, settings=SETTINGS) as world:
        for number in range(PLACES):
            place = world.environment(f"/h{number}")
            async with asyncio.timeout(60):
                async for event in place.watch(key_glob="count", initial_state=True):
                    if event.value >= rounds:
                        break
            heard = (await place.read_stream("heard", limit=1000)).items
            echoes = (await place.read_stream("echoes", limit=1000)).items
            assert [item.value["value"] for item in heard] == list(range(rounds))
            assert [item.value for item in echoes] == list(range(rounds))
            assert len({item.value["id"] for item in heard}) == rounds
            assert (await place.get("count")).value == rounds


async def set_up(server: ServerProcess) -> None:
    async with ecumene.connect(server.address) as world:
        for number in range(PLACES):
            await world.environment(f"/h{number}").register(kind="hearing")


def choose_places() -> list[Any]:
    """Two in the default tests: before and after a commit is on the disk."""
    brief = ("after_put", "after_commit")
    marks = {place: () if place in brief else pytest.mark.long for place in WRITER_PLACES}
    return [pytest.param(place, marks=marks[place]) for place in sorted(WRITER_PLACES)]


@pytest.mark.parametrize("place", choose_places())
async def test_a_kill_at_any_point_of_a_commit(
    place: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    with ServerProcess(tmp_path / "data", "--behaviour", "tests.faults.hearing_behaviour:Hearing") as server:
        await set_up(server)
        writing = None
        for _ in range(2):
            assert server.stop() == 0
            monkeypatch.setenv("FAILPOINT", f"{place}:kill:{chance.randint(3, 25)}")
            server.start()
            monkeypatch.delenv("FAILPOINT")
            if writing is None:
                writing = asyncio.create_task(write(server, WRITES), name="writing")
            assert await asyncio.to_thread(server.wait) == -signal.SIGKILL
            server.start()
        assert writing is not None
        await writing
        await check_server(server, WRITES)


async def test_nobody_waits_for_a_listener_over_the_network(tmp_path: Path) -> None:
    """A thousand environments with listeners; the writes are answered before the listeners have ended."""
    with ServerProcess(tmp_path / "data", "--behaviour", "tests.faults.hearing_behaviour:Hearing") as server:
        async with ecumene.connect(server.address, settings=SETTINGS) as world:
            places = [world.environment(f"/p{number}") for number in range(1000)]
            await asyncio.gather(*(place.register(kind="hearing") for place in places))
            watch = world.watch(EventFilter(key_glob="count"))
            for number in range(3):
                await asyncio.gather(*(place.set("in", number) for place in places))
            counted = 0
            async with asyncio.timeout(100):
                async for _ in watch:
                    counted += 1
                    if counted == 3000:
                        break
            await watch.aclose()
            for place in places[::100]:
                assert (await place.get("count")).value == 3
        server.kill()
        try:
            server.start()
        except NotReadyError as error:
            pytest.fail(error.log)
        async with ecumene.connect(server.address, settings=SETTINGS) as world:
            for number in range(0, 1000, 50):
                assert (await world.environment(f"/p{number}").get("count")).value == 3
