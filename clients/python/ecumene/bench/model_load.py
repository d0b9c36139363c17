"""The models of `model_case` in a world: `python -m ecumene.bench.model_load FILE ADDRESS SERVER_PID`.

Each step is one question, everybody's neighbours, rules over whole arrays, and one block of moves: what agents know of
themselves, their direction or kind, is kept here, their places in the world. Prints one JSON line: how long the steps
took, the CPU of client and server, and where it ended.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ecumene.bench.child import run_child, tell
from ecumene.bench.load_case import ENVIRONMENT, Meter
from ecumene.bench.model_case import Model, read_model
from ecumene.client.environment import Environment
from ecumene.client.spaces import Grid, Plane
from ecumene.client.surroundings import Neighbours
from ecumene.client.world import connect


class Flock:
    """Birds: one question and one block a step."""

    def __init__(self, model: Model, place: Environment) -> None:
        self._model = model
        self._place = place
        self._headings = np.array(model.traits)
        self._order: list[str] = []
        self.end = 0.0

    async def step(self, keys: list[str]) -> None:
        """Everybody sees the others, then everybody flies on."""
        rules = self._model.rules
        seen = await self._place.neighbours(radius=rules["vision"])
        if not self._order:
            self._order = seen.keys
            self._headings = self._headings[[int(key[1:]) for key in seen.keys]]
        places, self._headings = fly(self._model, seen, self._headings)
        (await self._place.move_many(self._order, places)).raise_failure()
        self.end = float(places.sum())


def fly(model: Model, seen: Neighbours, headings: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Places and headings after a step of all."""
    rules, side = model.rules, model.side
    counts = np.array(seen.counts)
    others = np.fromiter(seen.rows, np.int64)
    places = np.fromiter(seen.coordinates, np.float64).reshape(-1, 2)
    birds = np.repeat(np.arange(len(counts)), counts)
    gaps = places[others] - places[birds]
    gaps -= side * np.round(gaps / side)
    close = (gaps * gaps).sum(axis=1) < rules["separation"] ** 2
    turn = rules["cohere"] * gaps - rules["separate"] * gaps * close[:, None] + rules["match"] * headings[others]
    sums = np.stack([np.bincount(birds, turn[:, axis], len(counts)) for axis in (0, 1)], axis=1)
    headings = headings + sums / np.maximum(counts, 1)[:, None]
    headings = headings / np.hypot(headings[:, 0], headings[:, 1])[:, None]
    places = (places + rules["speed"] * headings) % side
    places[places >= side] = 0.0
    return places, headings


class Town:
    """A town: one question and one block a step."""

    def __init__(self, model: Model, place: Environment) -> None:
        side = int(model.side)
        self._wanted = model.rules["wanted"]
        self._place = place
        self._kinds = np.array([kind for (kind,) in model.traits])
        self._numbers = np.zeros(0, np.int64)
        self._places = list(model.places)
        inhabited = set(model.places)
        cells = ((float(x), float(y)) for x in range(side) for y in range(side))
        self._free = [cell for cell in cells if cell not in inhabited]
        self._chance = random.Random(side)
        self.end = 0.0

    async def step(self, keys: list[str]) -> None:
        """Everybody sees the others, then who is not content moves."""
        seen = await self._place.neighbours(adjacent=True)
        if not len(self._numbers):  # nobody comes or goes
            self._numbers = np.array([int(key[1:]) for key in seen.keys])
        numbers = self._numbers
        kinds, counts = self._kinds[numbers], np.array(seen.counts)
        each = np.repeat(np.arange(len(counts)), counts)
        alike = np.bincount(each, kinds[np.fromiter(seen.rows, np.int64)] == kinds[each], len(counts))
        movers = sorted(numbers[(counts > 0) & (alike < self._wanted * counts)].tolist())
        self._chance.shuffle(movers)
        for mover in movers:
            at = self._chance.randrange(len(self._free))
            self._places[mover], self._free[at] = self._free[at], self._places[mover]
        places = [self._places[mover] for mover in movers]
        (await self._place.move_many([keys[mover] for mover in movers], places)).raise_failure()
        self.end += len(movers)


async def main(path: Path, address: str, server_pid: int) -> None:
    """Run a model and tell the parent."""
    model = read_model(path)
    keys = [f"a{index}" for index in range(len(model.places))]
    side = model.side
    is_flock = model.name == "flock"
    async with connect(address) as world:
        place = world.environment(ENVIRONMENT)
        shape = (
            Plane(0.0, 0.0, side, side, torus=True) if is_flock else Grid(int(side), int(side), torus=True, capacity=1)
        )
        await place.register(space=shape)
        (await place.set_many(keys, [1.0] * len(keys), model.places)).raise_failure()
        run = Flock(model, place) if is_flock else Town(model, place)
        await run.step(keys)
        meter = Meter(server_pid)
        for _ in range(model.steps):
            await run.step(keys)
        result = meter.stop(model.steps, model.steps)
    cpu_s = result.client_cpu_s + result.server_cpu_s
    tell({"wall_s": result.wall_s, "cpu_s": cpu_s, "server_cpu_s": result.server_cpu_s, "end": run.end})


if __name__ == "__main__":
    run_child(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
