"""Birds fly where Mesa's boids fly, step by step; and later, when small differences have grown, are ordered as much."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flock import RULES, Flock
from mesa.examples.basic.boid_flockers.model import BoidFlockers
from stage import Stage

from tests.validation.both_ways import SEEDS, play_both_ways
from tests.validation.mesa_figures import fly_all

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.filterwarnings("ignore")]  # Mesa's own

USUAL = Flock(steps=10)
CLOSER = Flock(steps=10, name="closer", rules={**RULES, "cohere": 0.02})
MODELS = [USUAL, CLOSER]


async def follow(stage: Stage, model: Flock, seed: int) -> float:
    """How far a bird is from Mesa's boid that began like it, at the most, when all have flown for some steps."""
    boids: Any = BoidFlockers(cohere=RULES["cohere"], separate=RULES["separate"], match=RULES["match"], seed=1)
    async with stage.conduct(model, seed) as steps:
        positions, headings = model.begin(seed)
        for boid, position, heading in zip(boids.agents, positions, headings, strict=True):
            boid.position, boid.direction = np.array(position), np.array(heading)
        await model.play(steps)
        for _ in range(model.steps):
            fly_all(boids)
        around = await steps.world.environment(f"{steps.path}/sky").neighbours(adjacent=False, radius=1)
        where = dict(zip(around.keys, around.positions, strict=False))
    apart = [
        max(abs((where[agent][axis] - boid.position[axis] + 50) % 100 - 50) for axis in (0, 1))
        for agent, boid in zip(model.agents, boids.agents, strict=True)
    ]
    return max(apart)


async def test_ten_steps_are_those_of_mesas_boids(stage: Stage, seed: int) -> None:
    assert await follow(stage, USUAL, seed) < 1e-6
    # Able to fail: a wish that weighs otherwise leads elsewhere.
    assert await follow(stage, CLOSER, seed) > 0.1


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_thirty_seeds_on_one_runtime_and_on_four(first_seed: int) -> None:
    await play_both_ways({Flock(): SEEDS}, first_seed)
