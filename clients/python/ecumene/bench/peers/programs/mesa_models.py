"""Models in Mesa, or over bare arrays: `python mesa_models.py SYSTEM FILE`, FILE as `ecumene.bench.model_case` has it.

`mesa`: its continuous space and its grid of cells, one agent an object with rules of its own, as Mesa's own examples
of these models are built: numpy for the vectors of a bird, plain Python for the town. `arrays`: the same flock as
arrays of numpy over a cKDTree of scipy, without agents, space, record or server. One JSON line: how long the steps took
in wall and CPU time, and where it ended.
"""

from __future__ import annotations

import json
import random
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any


def make_flock(document: dict[str, Any]) -> Callable[[], float]:
    """Birds of Mesa; what is returned takes a step, and tells the sum of all coordinates."""
    import mesa
    import numpy as np
    from mesa.experimental.continuous_space import ContinuousSpace, ContinuousSpaceAgent

    rules, side = document["rules"], document["side"]

    class Bird(ContinuousSpaceAgent):
        def __init__(self, model: mesa.Model, space: Any, place: Any, heading: Any) -> None:
            super().__init__(space, model)
            self.position = np.array(place)
            self.heading = np.array(heading)
            self.turned = self.heading

        def turn(self) -> None:
            others, distances = self.get_neighbors_in_radius(rules["vision"])
            heading = self.heading
            if others:
                gaps = self.space.calculate_difference_vector(self.position, agents=others)
                away = gaps[distances < rules["separation"]].sum(axis=0)
                match = np.sum([other.heading for other in others], axis=0)
                sums = rules["cohere"] * gaps.sum(axis=0) - rules["separate"] * away + rules["match"] * match
                heading = heading + sums / len(others)
            self.turned = heading / np.linalg.norm(heading)

        def fly(self) -> None:
            self.heading = self.turned
            self.position = self.position + rules["speed"] * self.heading

    model = mesa.Model(seed=1)
    space = ContinuousSpace([[0, side], [0, side]], torus=True, random=model.random, n_agents=len(document["places"]))
    for place, heading in zip(document["places"], document["traits"], strict=True):
        Bird(model, space, place, heading)

    def step() -> float:
        model.agents.do("turn")
        model.agents.do("fly")
        return float(space.agent_positions.sum())

    return step


def make_town(document: dict[str, Any]) -> Callable[[], float]:
    """A town of Mesa; what is returned takes a step, and tells how many have moved so far."""
    import mesa
    from mesa.discrete_space import CellAgent, OrthogonalMooreGrid

    side, wanted = int(document["side"]), document["rules"]["wanted"]

    class Inhabitant(CellAgent):
        def __init__(self, model: mesa.Model, cell: Any, kind: int) -> None:
            super().__init__(model)
            self.cell = cell
            self.kind = kind
            self.is_content = True

        def look(self) -> None:
            others = self.cell.neighborhood.agents
            count = alike = 0
            for other in others:
                count += 1
                alike += other.kind == self.kind
            self.is_content = not count or alike >= wanted * count

    model = mesa.Model(seed=1)
    grid = OrthogonalMooreGrid((side, side), torus=True, capacity=1, random=model.random)
    inhabitants = [
        Inhabitant(model, grid[int(x), int(y)], kind)
        for (x, y), (kind,) in zip(document["places"], document["traits"], strict=True)
    ]
    free = [cell for x in range(side) for y in range(side) if (cell := grid[x, y]).is_empty]
    chance = random.Random(side)
    moved = 0

    def step() -> float:
        nonlocal moved
        model.agents.do("look")
        movers = [inhabitant for inhabitant in inhabitants if not inhabitant.is_content]
        chance.shuffle(movers)
        for mover in movers:
            at = chance.randrange(len(free))
            mover.cell, free[at] = free[at], mover.cell
        moved += len(movers)
        return float(moved)

    return step


def make_array_flock(document: dict[str, Any]) -> Callable[[], float]:
    """Birds as arrays; what is returned takes a step, and tells the sum of all coordinates."""
    import numpy as np
    from scipy.spatial import cKDTree

    rules, side = document["rules"], document["side"]
    places, headings = np.array(document["places"]), np.array(document["traits"])

    def step() -> float:
        nonlocal places, headings
        pairs = cKDTree(places, boxsize=side).query_pairs(rules["vision"], output_type="ndarray")
        birds = np.concatenate([pairs[:, 0], pairs[:, 1]])
        others = np.concatenate([pairs[:, 1], pairs[:, 0]])
        counts = np.bincount(birds, minlength=len(places))
        gaps = places[others] - places[birds]
        gaps -= side * np.round(gaps / side)
        close = (gaps * gaps).sum(axis=1) < rules["separation"] ** 2
        turn = rules["cohere"] * gaps - rules["separate"] * gaps * close[:, None] + rules["match"] * headings[others]
        sums = np.stack([np.bincount(birds, turn[:, axis], len(counts)) for axis in (0, 1)], axis=1)
        headings = headings + sums / np.maximum(counts, 1)[:, None]
        headings /= np.hypot(headings[:, 0], headings[:, 1])[:, None]
        places = (places + rules["speed"] * headings) % side
        return float(places.sum())

    return step


def main(system: str, path: str) -> dict[str, float]:
    """One step unmeasured, then as many as are asked for."""
    warnings.simplefilter("ignore")  # what is experimental in Mesa says so
    with Path(path).open(encoding="ascii") as file:
        document = json.load(file)
    makes = {"mesa": {"flock": make_flock, "town": make_town}, "arrays": {"flock": make_array_flock}}
    step = makes[system][document["name"]](document)
    end = step()
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    for _ in range(document["steps"]):
        end = step()
    return {"wall_s": time.perf_counter() - start_s, "cpu_s": time.process_time() - start_cpu_s, "end": end}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(*sys.argv[1:])) + "\n")
