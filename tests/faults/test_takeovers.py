"""Workers that are killed and stopped: every event is answered once, by whoever owned the agent at that revision.

Cases 4, 6 and 36: a runtime that came back got events twice; one actor was active on two hosts; a run that was killed
could not go on.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from ecumene.client import EventFilter, EventType, World

from tests.faults.takeovers import REPORTS, TTL_S, Fleet, Ticker, make_launch, open_world
from tests.services import ServerProcess

RULE, OBJECTS = 300, 20
TAKEOVER_S = TTL_S + 2
AGENTS = [*(f"r-{number}" for number in range(RULE)), *(f"d-{number}" for number in range(OBJECTS))]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as running:
        yield running


@pytest.fixture
async def world(server: ServerProcess) -> AsyncIterator[World]:
    async with open_world(server) as world:
        yield world


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [5, pytest.param(100, marks=pytest.mark.long)])
async def test_whatever_is_killed_every_event_has_one_effect_an_agent(
    tmp_path: Path, server: ServerProcess, world: World, seed: int, kills: int
) -> None:
    """A worker of two is killed at a random moment, the other takes its parts, and gives half of all to the next."""
    chance = random.Random(seed)
    fleet = Fleet(server, make_launch(tmp_path, rule=RULE, objects=OBJECTS, workers=2))
    ticker = Ticker(world, AGENTS)
    await ticker.prepare()
    try:
        await fleet.begin(2)
        await fleet.host(0, *fleet.parts[::2])
        await fleet.host(1, *fleet.parts[1::2])
        loads = 0
        for _ in range(kills):
            victim = chance.randrange(2)
            for _ in range(chance.randint(1, 4)):
                await ticker.tick()
                await asyncio.sleep(chance.uniform(0, 0.4))
            orphans = fleet.hosted(victim)
            if orphans and (not loads or chance.random() < 0.5):
                await fleet.wait_load(victim, ticker)  # and at any other moment else
                loads += 1
            await fleet.kill(victim)
            began_s = asyncio.get_running_loop().time()
            starting = asyncio.create_task(fleet.start(victim), name="restart")
            await ticker.tick()
            await fleet.host(1 - victim, *orphans, wait_s=TAKEOVER_S)
            assert asyncio.get_running_loop().time() - began_s <= TAKEOVER_S
            await starting
            await give_half(fleet, 1 - victim, victim, chance)
        await ticker.check_once()
        assert fleet.lost == []
        assert loads >= 1, "no turns were under way at any kill"
    finally:
        await fleet.end()


async def give_half(fleet: Fleet, giver: int, taker: int, chance: random.Random) -> None:
    """Move half of the parts in order, some with turns under way."""
    for part in fleet.hosted(giver)[::2]:
        await fleet.drop(giver, part, chance.choice([0.0, 1.0]))
        await fleet.host(taker, part)


async def test_a_worker_that_was_stopped_beyond_its_lease_has_no_effect_any_more(
    tmp_path: Path, server: ServerProcess, world: World
) -> None:
    """It wakes up with turns under way and with frames to send, and believes that it owns its agents."""
    fleet = Fleet(server, make_launch(tmp_path, rule=RULE, objects=OBJECTS, workers=2))
    ticker = Ticker(world, AGENTS)
    await ticker.prepare()
    parts_path = "/runtime/runs/r/parts"
    terms = world.watch(EventFilter(path_prefix=parts_path), from_revision=1)
    try:
        await fleet.begin(2)
        await fleet.host(0, *fleet.parts)
        for _ in range(3):
            await ticker.tick()
        stopped = fleet.workers[0].pid
        os.kill(stopped, signal.SIGSTOP)
        await ticker.tick()
        await fleet.host(1, *fleet.parts, wait_s=TAKEOVER_S)
        for _ in range(2):
            await ticker.tick()
        os.kill(stopped, signal.SIGCONT)
        for _ in range(3):
            await ticker.tick()
            await asyncio.sleep(0.1)
        await ticker.check_once()
        assert sorted(fleet.lost) == sorted((0, part.name) for part in fleet.parts)
        assert await fleet.inspect(0) == {}
        await check_terms(world, ticker, terms)
        # It is as good as new, and takes back what it had.
        await fleet.drop(1, fleet.parts[0])
        await fleet.host(0, fleet.parts[0])
    finally:
        await terms.aclose()
        await fleet.end()


async def check_terms(world: World, ticker: Ticker, terms: object) -> None:
    """Every report was written under the term that held at its revision."""
    reports = await ticker.wait_answers()
    last = reports[-1].revision
    held: dict[str, list[tuple[int, int]]] = {}
    async for event in terms:  # type: ignore[attr-defined]
        if event.revision > last:
            break
        if event.type is EventType.ENTRY_SET:
            held.setdefault(event.key, []).append((event.revision, 2**62))
        elif event.type is EventType.ENTRY_DELETED:
            began, _ = held[event.key].pop()
            held[event.key].append((began, event.revision))
        if len(held) and all(len(spans) == 2 for spans in held.values()) and len(held) == 4:
            break
    assert len(held) == 4
    for event in reports:
        term = int(event.actor.removeprefix("term-"))
        (span,) = [span for spans in held.values() for span in spans if span[0] == term]
        assert span[0] < event.revision < span[1], (event, span)


async def test_a_part_that_is_held_is_not_taken(tmp_path: Path, server: ServerProcess, world: World) -> None:
    fleet = Fleet(server, make_launch(tmp_path, rule=2, objects=0, workers=1))
    await Ticker(world, []).prepare()
    try:
        await fleet.begin(2)
        (part,) = fleet.parts
        await fleet.host(0, part)
        with pytest.raises(Exception, match=r"part rule\.0 is held by another worker"):
            await fleet.host(1, part, wait_s=0.3)
        with pytest.raises(Exception, match="this worker has it already"):
            await fleet.host(0, part)
        with pytest.raises(Exception, match="does not host it"):
            await fleet.drop(1, part)
        waiting = asyncio.create_task(fleet.host(1, part, wait_s=20), name="wait for the part")
        await asyncio.sleep(0.2)
        await fleet.drop(0, part)
        await waiting
        inspected = (await fleet.inspect(1))["rule.0"]
        assert (inspected["agents"], inspected["running"]) == (2, 0)
    finally:
        await fleet.end()
    assert not [entry async for entry in world.environment("/runtime/runs/r/parts").entries()]
    assert not await world.leases()
    assert await world.environment(REPORTS).describe()
