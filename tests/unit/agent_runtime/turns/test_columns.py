"""Rule agents in columns: how many of their turns run at a time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import numpy as np
from ecumene.client import EventType

from agent_runtime.turns.columns import REFILL_SHARE
from tests.unit.agent_runtime.fake_world import FakeWorld
from tests.unit.agent_runtime.stage import PLAYERS, WAKE, make_launch, set_stage, wait_until

LETTER = {"path": "/game", "types": ["entry_set"], "key": "{agent}"}


async def test_no_more_turns_run_than_the_group_allows_and_nobody_is_left_out(tmp_path: Path) -> None:
    agents, most = 1000, 160
    ids = [f"n-{number}" for number in range(agents)]
    world = FakeWorld()
    world.hold_answers = True
    launch = make_launch(tmp_path, f"{PLAYERS}:Rule", ids, turns_in_flight_max=most)
    async with set_stage(tmp_path, launch, world) as stage:
        world.open_round()
        sent = 0
        while sent < agents:
            before, sent = sent, min(sent + most, agents)
            await wait_until(lambda sent=sent: len(world.reports()) == sent)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(world.reports()) == sent, "whoever waits for room sends nothing"
            assert stage.pipeline.statistics()["g.0"].running == sent - before
            world.release_answers()
            world.hold_answers = True
        world.release_answers()
        await stage.wait_turns(agents)
        assert stage.pipeline.statistics()["g.0"].running == 0
    assert Counter((row["agent"], row["turn"]) for row in stage.read("turns")) == {(name, 1): 1 for name in ids}
    assert [len(keys) for keys, _, _ in world.frames.blocks] == [160] * 6 + [40]


async def test_whatever_comes_and_whenever_it_is_answered_the_bound_holds(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(12):
        folder = tmp_path / str(number)
        folder.mkdir()
        await live_with_a_bound(folder, chance)


async def live_with_a_bound(folder: Path, chance: random.Random) -> None:
    """Rounds and letters, answered in pieces."""
    ids = [f"n-{number}" for number in range(chance.randint(1, 60))]
    most = chance.randint(1, 40)
    kind = chance.choice([{"kind": "fixed", "ms": 1}, {"kind": "uniform", "high_ms": 4}])
    world = FakeWorld()
    world.hold_answers = True
    launch = make_launch(folder, f"{PLAYERS}:Rule", ids, turns_in_flight_max=most, thinking=kind, wake=[*WAKE, LETTER])
    expected = Counter[str]()
    async with set_stage(folder, launch, world) as stage:
        for _ in range(chance.randint(1, 6)):
            if chance.random() < 0.5:
                world.open_round(1)
                expected.update(ids)
            else:
                name = chance.choice(ids)
                world.emit((EventType.ENTRY_SET, "/game", name, 1))
                expected[name] += 1
        async with asyncio.timeout(20):
            while sum(stage.statuses.values()) < expected.total():
                await asyncio.sleep(0)
                unanswered = sum(result.count for _, result in world.held)
                running = stage.pipeline.statistics()["g.0"].running
                assert unanswered <= running <= most
                if world.held and chance.random() < 0.2:
                    future, result = world.held.pop(chance.randrange(len(world.held)))
                    future.set_result(result)
        world.release_answers()
    turns = stage.read("turns")
    assert Counter(row["agent"] for row in turns) == expected
    for name in expected:
        mine = sorted((row["turn"], row["observation_revision"]) for row in turns if row["agent"] == name)
        assert [turn for turn, _ in mine] == list(range(1, expected[name] + 1))
        assert [revision for _, revision in mine] == sorted({revision for _, revision in mine})


async def test_room_is_filled_in_pieces_so_that_frames_stay_full(tmp_path: Path) -> None:
    agents, most = 2000, 320
    launch = make_launch(
        tmp_path,
        f"{PLAYERS}:Rule",
        [f"n-{number}" for number in range(agents)],
        turns_in_flight_max=most,
        thinking={"kind": "fixed", "ms": 1},
    )
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round()
        await stage.wait_turns(agents)
        sizes = np.array([len(keys) for keys, _, _ in stage.world.frames.blocks])
    assert sizes.sum() == agents
    assert (sizes[:-1] >= most // REFILL_SHARE).all()
