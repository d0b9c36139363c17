"""Runs that are killed as a whole and launched again: what they come to is what they would have come to.

Case 36: a run of many hours was lost with its process. The digest tells what each agent did, and the state.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import EventFilter, EventType, World
from ecumene.client.records import RunDigest, digest_entries, digest_state, digest_turns

from agent_runtime.node.records import Records
from tests.faults.takeovers import COUNTS, Runtime, describe_launch, free_parts, open_world
from tests.services import ServerProcess

RULE, OBJECTS, ROUNDS = 40, 12, 4
OPENED = [{"path": "/game", "types": ["behaviour"], "key": "round.opened"}]


def describe(folder: Path, workers: int, **more: Any) -> dict[str, Any]:
    """Agents that play the guess game, each with a diary or by rule."""
    launch = describe_launch(folder, rule=RULE, objects=OBJECTS, workers=workers, recording=str(folder / "rec"), **more)
    for group in launch["groups"]:
        group["wake"] = OPENED
    return launch


async def play(folder: Path, workers: int, chance: random.Random | None) -> RunDigest:
    """All rounds on a server of their own; with `chance`, killed in each at a random turn, and launched again."""
    await asyncio.to_thread(folder.mkdir)
    with ServerProcess(folder / "data") as server:
        async with open_world(server) as world:
            await world.environment(COUNTS).register()
            await world.environment("/game").register(kind="guess_game")
            launch = describe(folder, workers)
            # On a machine that others use workers may be late with a lease; nobody waits for the end of one here.
            launch["worker"]["lease_ttl_s"] = 300.0
            runtime = Runtime(folder, launch, server.address)
            assert (await runtime.start())["state"] == "ready"
            try:
                for _ in range(ROUNDS):
                    await play_round(world, runtime, chance)
            finally:
                code = await runtime.stop()
            assert code == 0
            rolled = await digest_entries(world, [("/game", "round"), ("/game/reports", "d-0")])
            return RunDigest(digest_turns(folder / "rec"), await digest_state(world), rolled)


async def play_round(world: World, runtime: Runtime, chance: random.Random | None) -> None:
    """One round; the run is killed after a random number of its reports."""
    game, agents = world.environment("/game"), RULE + OBJECTS
    kill_after = agents if chance is None else chance.randint(0, agents - 1)
    watched = EventFilter(path_prefix="/game/reports", types=(EventType.ENTRY_SET, EventType.GATE_OPENED))
    seen, is_killed = 0, chance is None
    async with world.watch(watched) as watch, asyncio.timeout(120):
        opened: Any = await game.invoke("open_round", participants=agents)
        while True:
            if seen >= kill_after and not is_killed:
                is_killed = True
                await runtime.kill()
                await free_parts(world)
                assert (await runtime.start(resume=True))["state"] == "ready"
            event = await anext(watch)
            if event.type is EventType.GATE_OPENED:
                break
            seen += 1
    assert seen == agents
    closed: Any = await game.invoke("close_round", generation=opened["generation"])
    assert (closed["reported"], closed["failed"]) == (agents, 0)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunDigest:
    """Of the run that nobody interrupts, in one worker."""
    return asyncio.run(play(tmp_path_factory.mktemp("plain") / "run", 1, None))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [1, 4, pytest.param(16, marks=pytest.mark.long)])
async def test_a_run_that_was_killed_again_and_again_has_the_digest_of_one_that_was_not(
    tmp_path: Path, seed: int, plain: RunDigest, workers: int
) -> None:
    assert await play(tmp_path / "run", workers, random.Random(seed)) == plain


@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [4, pytest.param(16, marks=pytest.mark.long)])
async def test_the_number_of_workers_makes_no_difference(tmp_path: Path, plain: RunDigest, workers: int) -> None:
    assert await play(tmp_path / "run", workers, None) == plain


async def test_a_run_that_exists_is_gone_on_with_only_when_asked_and_only_as_itself(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        async with open_world(server) as world:
            await world.environment(COUNTS).register()
            await world.environment("/game").register(kind="guess_game")
            launch = describe(tmp_path, 1)
            absent = await Runtime(tmp_path, launch, server.address).start(resume=True)
            assert (absent["state"], absent["reason"]) == (
                "failed",
                "run: there is no run 'r' in world main to go on with",
            )
            first = Runtime(tmp_path, launch, server.address)
            assert (await first.start())["state"] == "ready"
            assert await first.stop() == 0
            again = Runtime(tmp_path, launch, server.address)
            assert (await again.start())["reason"].startswith("run: run 'r' exists already in world main: resume it")
            assert await again.wait() == 2
            other = Runtime(tmp_path, launch | {"seed": 2}, server.address)
            assert "another seed, other groups or other agents" in (await other.start(resume=True))["reason"]
            assert await other.wait() == 2
            # As many workers as one likes: the parts stay.
            more = Runtime(tmp_path, launch, server.address)
            told = await more.start(resume=True, workers=2)
            assert (told["state"], told["agents"]) == ("ready", RULE + OBJECTS)
            await more.stop()
            # Nothing is held any more; and once it is forgotten, the id is free.
            assert not await world.leases()
            assert await Records(world).delete("r")
            assert not await Records(world).delete("r")
            assert [child.path async for child in world.environment("/runtime/runs").children()] == []
            fresh = Runtime(tmp_path, launch, server.address)
            assert (await fresh.start())["state"] == "ready"
            assert await fresh.stop() == 0
