"""Conway's life on a torus: every cell is an agent that looks at its eight neighbours.

python examples/models/life.py --seeds 4

Nothing is left to chance but the first generation, so each later one is known exactly.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from playing import main
from stage import Known, find_place, name_agents

from agent_runtime.agents.agent import RuleAgents

if TYPE_CHECKING:
    from ecumene import Event
    from ecumene.sim.steps import Steps

AROUND = tuple((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx)
ALIVE_AT_FIRST = 0.35


class Cells(RuleAgents):
    """Say 1 if they live on or are born, else 0. They see who lives as one line of 0 and 1, row by row."""

    def decide_many(self, agent_ids: Sequence[str], event: Event) -> Sequence[float]:
        """B3/S23: born among three, lives on among two or three."""
        told: Any = event.value
        width, cells = told["width"], [int(cell) for cell in told["cells"]]
        height = len(cells) // width
        answers = []
        for place in map(find_place, agent_ids):
            row, column = divmod(place, width)
            alive = sum(cells[(row + dy) % height * width + (column + dx) % width] for dy, dx in AROUND)
            answers.append(int(alive == 3 or (alive == 2 and cells[place])))
        return answers


class Life:
    """A torus of `width` × `height` cells."""

    name = "life"
    agent = "life:Cells"
    meanings: Mapping[str, str] = {"alive": "cells that live in the last generation"}
    resumable = False

    def __init__(self, width: int = 32, height: int = 24, generations: int = 200) -> None:
        self.width = width
        self.generations = generations
        self.agents = name_agents(self.name, width * height)
        self.parameters: dict[str, Any] = {}

    def begin(self, seed: int) -> list[int]:
        """The first generation."""
        chance = random.Random(seed)
        return [int(chance.random() < ALIVE_AT_FIRST) for _ in self.agents]

    async def evolve(self, steps: Steps) -> AsyncIterator[list[int]]:
        """The generations, from the first on."""
        cells = self.begin(steps.seed)
        yield cells
        for _ in range(self.generations):
            said = await steps.take({"width": self.width, "cells": "".join(map(str, cells))})
            cells = [int(str(cell)) for cell in said.values()]
            yield cells

    async def play(self, steps: Steps) -> dict[str, float]:
        """All generations; how many live in the end."""
        alive = [sum(cells) async for cells in self.evolve(steps)]
        return {"alive": alive[-1]}

    def list_known(self) -> dict[str, Known]:
        """Each generation is known; tests/validation compares them one by one."""
        return {}


if __name__ == "__main__":
    main(Life())
