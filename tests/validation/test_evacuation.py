"""People leave a room step by step as in a simulation of arrays, and all of whom hear the alarm get out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from evacuation import LEAVES, Evacuation
from stage import Stage

from agent_runtime.model.draws import Draw
from tests.validation.both_ways import SEEDS, play_both_ways

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOM = Evacuation(people=24, width=8, height=7)
MODELS = [ROOM]
OUTSIDE = -9


def step_arrays(room: Evacuation, seed: int, number: int, at: Any, heard: Any, earshot: int) -> tuple[Any, Any]:
    """Who is alarmed in a step, and where everybody is behind it: of arrays, without anybody who decides.

    `at`: columns and rows, OUTSIDE for those who are out.
    """
    inside = at[:, 0] != OUTSIDE
    apart = np.abs(at[:, None, :] - at[None, :, :]).max(axis=2)
    heard = ~inside | heard | ((apart <= earshot) & inside[None, :] & heard[None, :]).any(axis=1)
    goal, taken = np.array(room.exit), {tuple(cell) for cell in at[inside]}
    after, wishes = at.copy(), []
    for person in np.flatnonzero(inside & heard):
        if (at[person] == goal).all():
            after[person] = OUTSIDE
            continue
        cells = [
            (np.abs(cell - goal).max(), np.abs(cell - goal).sum(), *cell)
            for dx in (-1, 0, 1)
            for dy in (-1, 0, 1)
            if ((cell := at[person] + (dx, dy)) >= 0).all() and (cell < (room.width, room.height)).all()
        ]
        own = (np.abs(at[person] - goal).max(), np.abs(at[person] - goal).sum())
        if free := sorted(cell for cell in cells if cell[:2] < own and cell[2:] not in taken):
            wishes.append((Draw(seed, room.agents[person], number, 0).random(), person, free[0][2:]))
    given: set[Any] = set()
    for _, person, cell in sorted(wishes):
        if cell not in given:
            given.add(cell)
            after[person] = cell
    return heard, after


async def compare(stage: Stage, room: Evacuation, seed: int, earshot: int = 2) -> bool:
    """Whether each step is as the arrays say, which hear as far as is said."""
    async with stage.conduct(room, seed) as steps:
        at, heard, alike = np.array(room.begin(seed)), np.arange(len(room.agents)) == 0, True
        async for told, goes in room.leave(steps):
            heard, after = step_arrays(room, seed, steps.number, at, heard, earshot)
            for person, agent in enumerate(room.agents):
                went = goes.get(agent, at[person].tolist())
                alike &= after[person].tolist() == ([OUTSIDE, OUTSIDE] if went == LEAVES else went)
            alike &= told == "".join(str(int(one)) for one in heard)
            at = after
        inside = await steps.world.environment(f"{steps.path}/room").near((0, 0), radius=99)
        return alike and sorted(inside.positions) == sorted(tuple(cell) for cell in at[at[:, 0] != OUTSIDE].tolist())


async def test_each_step_is_that_of_another_simulation(stage: Stage, seed: int) -> None:
    assert await compare(stage, ROOM, seed)


async def test_another_earshot_is_noticed(stage: Stage, seed: int) -> None:
    assert not await compare(stage, ROOM, seed, earshot=1)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_thirty_seeds_on_one_runtime_and_on_four(first_seed: int) -> None:
    model = Evacuation()
    await play_both_ways({model: 6}, first_seed)
    async with Stage([model]) as stage:
        for seed in range(first_seed, first_seed + SEEDS):
            assert await compare(stage, model, seed)
