"""Turns that overlap with firings, answers that are late, and owners that die or give back in between: at random."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.worker.hosted_part import HostedPart
from tests.unit.agent_runtime.clocked import BOOK, clocked, look, sleepers
from tests.unit.agent_runtime.fake_world import FakeWorld
from tests.unit.agent_runtime.stage import FakeOwner, Stage, set_stage, wait_until

STEP_NS, FIRST_NS, LIVES = 60, 100, 4
AGENTS = {
    "Daily": ["day-0", "day-1", "day-7", "whole-2", "once-3", "idle-0"],
    "Sleeper": ["hourly-0", "hourly-1", "once-0"],
}


def expect_times(agent: str, now_ns: int) -> list[int]:
    """When an agent is to have been woken by then; those of `Sleeper` all begin together."""
    mood, number = agent.split("-")
    first_ns = FIRST_NS + (0 if mood == "hourly" else int(number))
    return list(range(first_ns, now_ns + 1, STEP_NS))[: 1 if mood == "once" else None]


async def live(chance: random.Random, stage: Stage, world: FakeWorld) -> None:
    """Some steps of what may happen while a worker hosts the part."""
    part = stage.pipeline.parts["g.0"]
    for _ in range(chance.randrange(3, 9)):
        match chance.choice(["advance", "advance", "hold", "release", "save"]):
            case "advance":
                world.advance((world.clock_ns or 0) + chance.randrange(1, 130))
            case "hold":
                world.hold_answers = True
            case "release":
                world.release_answers()
            case "save" if not world.hold_answers:
                await part.save_cursor()
        for _ in range(chance.randrange(12)):
            await asyncio.sleep(0)


def is_calm(part: HostedPart, world: FakeWorld) -> bool:
    """Whether all that was due has been dealt with."""
    activity, now_ns = look(part), world.clock_ns or 0
    last = world.emitted[-1][0] if world.emitted else 0
    is_ahead = all(at_ns > now_ns for at_ns in world.timers.values())
    return is_ahead and not activity.is_busy and activity.consumed_revision >= last


def check(world: FakeWorld, ids: list[str], turns: dict[str, dict[int, set[tuple[int, str]]]]) -> None:
    """Each wake had its turn and its effect once, in order, whoever hosted the agents."""
    now_ns = world.clock_ns or 0
    for agent in ids:
        times = expect_times(agent, now_ns)
        acts = [int(past.value) for past in world.past.get(("/game", agent), ())]  # type: ignore[arg-type]
        assert acts == ([] if agent.startswith("idle") else times), agent
        # A turn that was cut off is taken again under its number, at its time.
        told: list[Any] = [{at_ns for at_ns, _ in turns[agent][number]} for number in sorted(turns[agent])]
        assert told == [{at_ns} for at_ns in times], agent
        assert all("ok" in {status for _, status in rows} for rows in turns[agent].values()), agent
        if times:
            next_ns = [] if agent.startswith("once") else [[times[-1] + STEP_NS]]
            assert world.entries[BOOK, agent] == {"wakes": next_ns, "woke_ns": times[-1]}, agent


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("agent", ["Daily", "Sleeper"])
@pytest.mark.parametrize("walks", [1, pytest.param(150, marks=pytest.mark.long)])
async def test_each_wake_has_one_turn_whatever_overlaps(tmp_path: Path, seed: int, agent: str, walks: int) -> None:
    for walk in range(walks):
        chance = random.Random(f"{seed}/{walk}")
        world, turns = clocked(), defaultdict[str, dict[int, set[tuple[int, str]]]](dict)
        owner, folder = FakeOwner(world), tmp_path / str(walk)
        await asyncio.to_thread(folder.mkdir)
        launch = sleepers(folder, AGENTS[agent], agent, mailbox_max=chance.choice([1, 64]))
        for number in range(LIVES):
            async with set_stage(folder / str(number), launch, world, owner, source=f"w{number}") as stage:
                part = stage.pipeline.parts["g.0"]
                await live(chance, stage, world)
                if number < LIVES - 1 and chance.random() < 0.6:
                    stage.pipeline.lose_all("killed")
                    owner.held.clear()
                else:
                    world.release_answers()
                    if number == LIVES - 1:
                        await wait_until(partial(is_calm, part, world))
            world.release_answers()
            for row in stage.read("turns"):
                turns[row["agent"]].setdefault(row["turn"], set()).add((row["sim_time_ns"], row["status"]))
        check(world, AGENTS[agent], turns)
