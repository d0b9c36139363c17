"""The spaces that are measured, and who is where and goes where: plain data, the same for each system beside the other.

Positions are drawn from a seed, so that all systems see the same crowd. Distances are such that one or two others are
near enough to meet, and ten within the radius of queries.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[float, float]

PLACES_PER_ENTRY = 10.0
"""Square units of the plane."""
CROWD = 0.2
"""Entries a cell of the grid."""
NEAREST = 10
REGION = "west"
PROXIMITY = "near"
SEED = 1


@dataclass(frozen=True, slots=True)
class SpaceCase:
    """What to do in a space.

    Attributes:
        shape: `plane` or `grid`, each a torus.
        address, server_pid: of the server; "" and 0 where there is none.
        entries: that are somewhere.
        moves: of each kind.
        queries: of each kind.
    """

    shape: str
    address: str
    server_pid: int
    entries: int
    moves: int
    queries: int

    @property
    def side(self) -> float:
        """Of the square that the space is; whole and even."""
        return 2.0 * round(math.sqrt(self.entries * (PLACES_PER_ENTRY if self.shape == "plane" else 1 / CROWD)) / 2)

    @property
    def proximity(self) -> float:
        """At which two entries meet."""
        return 2.0 if self.shape == "plane" else 1.0

    @property
    def radius(self) -> float:
        """Within which queries look: about ten others."""
        return math.sqrt(NEAREST * PLACES_PER_ENTRY / math.pi) if self.shape == "plane" else 3.0


class Crowd:
    """Where everybody is, and where they go next."""

    def __init__(self, case: SpaceCase) -> None:
        self._case = case
        self._chance = random.Random(SEED)
        self.keys = [f"a{index}" for index in range(case.entries)]
        self.points = [self._place() for _ in self.keys]

    def draw(self, count: int) -> list[int]:
        """Different entries, at random."""
        return self._chance.sample(range(len(self.keys)), min(count, len(self.keys)))

    def walk(self, movers: Sequence[int]) -> list[Point]:
        """Everybody takes a short step; where to."""
        return self._go(movers, 0.0)

    def cross(self, movers: Sequence[int]) -> list[Point]:
        """Everybody goes over to the other half, which means to cross the border of its region; where to."""
        return self._go(movers, self._case.side / 2)

    def _go(self, movers: Sequence[int], far: float) -> list[Point]:
        points = self.points
        for mover in movers:
            x, y = points[mover]
            points[mover] = (self._wrap(x + far, 0.0 if far else 1.0), self._wrap(y, 1.0))
        return [points[mover] for mover in movers]

    def _wrap(self, number: float, step: float) -> float:
        if self._case.shape == "plane":
            number += self._chance.uniform(-step, step)
        else:
            number += self._chance.choice((-step, step))
        wrapped = number % self._case.side
        return wrapped if wrapped < self._case.side else 0.0

    def _place(self) -> Point:
        side = self._case.side
        if self._case.shape == "plane":
            return self._chance.random() * side, self._chance.random() * side
        return float(self._chance.randrange(int(side))), float(self._chance.randrange(int(side)))
