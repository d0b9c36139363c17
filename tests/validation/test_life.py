"""Conway's life on a torus, generation by generation as a convolution has it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from life import Life
from scipy.ndimage import convolve
from stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

TORUS = Life(width=32, height=24, generations=200)
AROUND = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]])
GLIDER = [(0, 1), (1, 2), (2, 0), (2, 1), (2, 2)]


class Glider(Life):
    """A lone glider, which goes one cell down and to the right in four generations."""

    name = "glider"

    def begin(self, seed: int) -> list[int]:
        """A glider at the upper left, whatever the seed."""
        cells = [0] * len(self.agents)
        for row, column in GLIDER:
            cells[row * self.width + column] = 1
        return cells


LONE = Glider(width=8, height=12, generations=96)
MODELS = [TORUS, LONE]


def evolve_array(cells: Any, *, born: tuple[int, ...] = (3,), mode: str = "wrap") -> Any:
    """The next generation, by another way; the wrong ones are for what must be noticed."""
    around = convolve(cells, AROUND, mode=mode)
    return (np.isin(around, born) | ((around == 2) & (cells == 1))).astype(int)


async def record(stage: Stage, model: Life, seed: int) -> list[Any]:
    """All generations, as arrays."""
    async with stage.conduct(model, seed) as steps:
        return [np.array(cells).reshape(-1, model.width) async for cells in model.evolve(steps)]


async def test_two_hundred_generations_are_exact(stage: Stage, seed: int) -> None:
    generations = await record(stage, TORUS, seed)
    assert len(generations) == 201
    for number, (before, after) in enumerate(pairwise(generations), start=1):
        assert np.array_equal(evolve_array(before), after), f"generation {number}"
    # Able to fail: of a torus with an edge, or where six bring forth too, it would not be true.
    pairs = list(pairwise(generations))
    assert not all(np.array_equal(evolve_array(before, mode="constant"), after) for before, after in pairs)
    assert not all(np.array_equal(evolve_array(before, born=(3, 6)), after) for before, after in pairs)


async def test_a_glider_goes_around_the_torus(stage: Stage) -> None:
    generations = await record(stage, LONE, 1)
    first = generations[0]
    assert all(generation.sum() == 5 for generation in generations)
    assert np.array_equal(generations[4], np.roll(first, (1, 1), (0, 1)))
    assert [n for n, cells in enumerate(generations) if np.array_equal(cells, first)] == [0, 96]  # 4 · lcm(8, 12)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_thirty_seeds_on_one_runtime_and_on_four(first_seed: int) -> None:
    for runtimes in (1, 4):
        model = Life()
        async with Stage([model], runtimes=runtimes) as stage:
            for seed in range(first_seed, first_seed + 30):
                generations = await record(stage, model, seed)
                expected = generations[0]
                for generation in generations[1:]:
                    expected = evolve_array(expected)
                    assert np.array_equal(generation, expected), (runtimes, seed)
