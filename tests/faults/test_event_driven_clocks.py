"""An event-driven clock passes nothing that is on its way: held-back watches, killed participants, killed servers."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from ecumene import ClientSettings, Clock, EventType, Participant, World, connect

from tests.services import ROOT, ServerProcess
from tests.tcp_proxy import TcpProxy

TOWN, WORKERS = "/town", "/town/workers"
QUICK = ClientSettings(backoff_first_ms=5, backoff_ms_max=50)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as server:
        yield server


async def make_town(world: World, every_ns: int = 10) -> None:
    """The clock with a timer that fires again and again."""
    town = world.environment(TOWN)
    await town.register()
    await world.environment(WORKERS).register()
    await town.change(clock=Clock.event_driven(participants_path=WORKERS))
    await town.set_timer("tick", at_ns=every_ns, every_ns=every_ns)


async def note_ticks(participant: Participant, world: World, through: int) -> list[int]:
    """Answers each tick with an op, until so many have come; returns their numbers as they came."""
    heard: list[int] = []
    async for batch in participant:
        for event in batch:
            if event.type is EventType.TIMER_FIRED:
                heard.append(event.value["fired"])  # type: ignore[index,call-overload]
                await world.environment(TOWN).set(f"{participant.name}-{heard[-1]}", heard[-1])
        if heard and heard[-1] >= through:
            return heard
    raise AssertionError("the watch has ended without a word")


async def answered_late(world: World, names: list[str]) -> list[tuple[str, int]]:
    """Answers that came behind the next tick, and ticks that did not follow one another."""
    wrong: list[tuple[str, int]] = []
    last = 0
    async with world.watch_frames(from_revision=1) as watch:
        async for batch in watch:
            for event in batch:
                if event.type is EventType.TIMER_FIRED:
                    if event.value["fired"] != last + 1:  # type: ignore[index,call-overload]
                        wrong.append(("tick", last))
                    last = event.value["fired"]  # type: ignore[index,call-overload,assignment]
                elif event.type is EventType.ENTRY_SET and event.key.partition("-")[0] in names and event.path == TOWN:
                    name, _, tick = event.key.partition("-")
                    if int(tick) != last:
                        wrong.append((name, int(tick)))
            if batch.through_revision >= world.revision:
                return wrong
    raise AssertionError("the watch has ended")


async def test_a_worker_whose_watch_is_held_back_is_waited_for(server: ServerProcess) -> None:
    async with (
        TcpProxy(server.address) as proxy,
        connect(server.address) as world,
        connect(proxy.address, settings=QUICK) as far,
    ):
        await make_town(world)
        async with (
            world.environment(TOWN).clock().participate("near") as near,
            far.environment(TOWN).clock().participate("far", ttl_s=60) as late,
        ):
            living = [
                asyncio.create_task(note_ticks(near, world, 40)),
                asyncio.create_task(note_ticks(late, far, 40)),
            ]
            for _ in range(4):
                await asyncio.sleep(0.1)
                proxy.drops_answers = True  # what it is told is lost on the way
                before = (await world.environment(TOWN).clock().state()).now_ns
                await asyncio.sleep(0.3)
                after = (await world.environment(TOWN).clock().state()).now_ns
                assert after - before <= 10, "the one tick that was under way"
                proxy.drops_answers = False
                proxy.cut()
            async with asyncio.timeout(60):
                heard = await asyncio.gather(*living)
        assert heard == [list(range(1, 41))] * 2, "each tick once, in order, for both"
        assert await answered_late(world, ["near", "far"]) == []


async def test_kills_of_the_server_lose_no_tick_and_let_none_pass(server: ServerProcess) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    async with connect(server.address, settings=QUICK) as world, connect(server.address, settings=QUICK) as other:
        await make_town(world)
        async with (
            world.environment(TOWN).clock().participate("a", ttl_s=60) as one,
            other.environment(TOWN).clock().participate("b", ttl_s=None) as two,
        ):
            living = [
                asyncio.create_task(note_ticks(one, world, 60)),
                asyncio.create_task(note_ticks(two, other, 60)),
            ]
            for _ in range(5):
                await asyncio.sleep(chance.uniform(0.05, 0.4))
                server.kill()
                server.start()
            async with asyncio.timeout(80):
                heard = await asyncio.gather(*living)
        assert heard == [list(range(1, 61))] * 2
        assert await answered_late(world, ["a", "b"]) == []


PARTICIPANT = """
    import asyncio, sys
    from ecumene import connect

    async def main():
        async with connect(sys.argv[1]) as world:
            ttl_s = float(sys.argv[2]) or None
            async with world.environment("/town").clock().participate("victim", ttl_s=ttl_s) as victim:
                print("there", flush=True)
                async for batch in victim:
                    await asyncio.sleep(0.001)

    asyncio.run(main())
"""


def start_participant(address: str, ttl_s: float) -> subprocess.Popen[bytes]:
    """One in a process of its own, which says when it is there."""
    command = [sys.executable, "-c", textwrap.dedent(PARTICIPANT), address, str(ttl_s)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)


@pytest.mark.parametrize("ttl_s", [1.0, 0.0])
async def test_a_participant_that_is_killed_is_waited_for_as_long_as_it_takes_part(
    server: ServerProcess, ttl_s: float
) -> None:
    """Under a lease that is until it ends; without one until somebody takes its place."""
    async with connect(server.address) as world:
        await make_town(world)
        victim = start_participant(server.address, ttl_s)
        try:
            assert victim.stdout is not None
            await asyncio.to_thread(victim.stdout.readline)
            async with world.environment(TOWN).clock().participate("a") as one:
                await note_ticks(one, world, 20)
                victim.kill()
                await asyncio.to_thread(victim.wait)
                living = asyncio.create_task(note_ticks(one, world, 60))
                if ttl_s:
                    async with asyncio.timeout(20):
                        await living
                else:
                    await asyncio.sleep(1.0)
                    assert not living.done()
                    held_by = (await world.environment(TOWN).clock().state()).held_by
                    assert held_by == ("victim: no report",), held_by
                    async with world.environment(TOWN).clock().participate("victim", ttl_s=None) as heir:
                        heirs = asyncio.create_task(note_ticks(heir, world, 60))
                        async with asyncio.timeout(20):
                            await asyncio.gather(living, heirs)
        finally:
            victim.kill()
            victim.wait()
        assert await answered_late(world, ["a"]) == []
