"""No crossing of a border is lost, doubled or told of nobody: what the events add up to is what brute force finds.

Entries walk about, jump, leave the space, are deleted and placed anew, in frames and transactions that may fail, over
crashes. Everybody's regions and proximities are found again from all positions, without an index.
"""

from __future__ import annotations

import itertools
import math
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from geographiclib.geodesic import Geodesic

from env_server.model.changes import EventType
from env_server.model.operations import Code, Delete, Nearby, Placed, Query, Transact, Write
from env_server.model.spaces import Box, Disc, Geo, Grid, Neighbourhood, Plane, Position, Proximity, Region, Space
from tests.engine import Op, Stand, new_environment

PATH = "/town"
ENTRIES = 24
FRAME = 8
ENTERED = (EventType.REGION_ENTERED, EventType.PROXIMITY_ENTERED)
CROSSINGS = (*ENTERED, EventType.REGION_LEFT, EventType.PROXIMITY_LEFT)
Measure = Callable[[Position, Position], float]


def on_grid(one: Position, other: Position) -> float:
    gaps = [min(abs(a - b), 16 - abs(a - b)) for a, b in zip(one, other, strict=True)]
    return max(gaps)


def on_plane(one: Position, other: Position) -> float:
    gaps = [min(abs(a - b), 10 - abs(a - b)) for a, b in zip(one, other, strict=True)]
    return math.hypot(*gaps)


def on_earth(one: Position, other: Position) -> float:
    return float(Geodesic.WGS84.Inverse(one[1], one[0], other[1], other[0])["s12"])


def in_box(box: Box, position: Position) -> bool:
    return all(
        low <= at <= high if low <= high else at >= low or at <= high
        for low, at, high in zip(box.low, position, box.high, strict=True)
    )


class Ground:
    """A shape with what is declared on it, how it is measured, and how one walks on it."""

    def __init__(
        self, space: Space, measure: Measure, step: Callable[[random.Random, Position | None], Position]
    ) -> None:
        self.space = space
        self.measure = measure
        self.step = step

    def inside(self, region: Region, position: Position) -> bool:
        if isinstance(region.area, Box):
            return in_box(region.area, position)
        assert isinstance(region.area, Disc)
        return self.measure(region.area.centre, position) <= region.area.radius


def walk_cells(chance: random.Random, before: Position | None) -> Position:
    if before is None or chance.random() < 0.1:
        return (float(chance.randrange(16)), float(chance.randrange(16)))
    return ((before[0] + chance.choice((-1, 0, 1))) % 16, (before[1] + chance.choice((-1, 0, 1))) % 16)


def walk_plane(chance: random.Random, before: Position | None) -> Position:
    if before is None or chance.random() < 0.1:
        return (chance.uniform(0, 9.999), chance.uniform(0, 9.999))
    return ((before[0] + chance.uniform(-1, 1)) % 10 % 10, (before[1] + chance.uniform(-1, 1)) % 10 % 10)


def walk_earth(chance: random.Random, before: Position | None) -> Position:
    """Near 180 degrees east and the pole, where most can go wrong."""
    if before is None or chance.random() < 0.1:
        return (chance.choice((-1, 1)) * chance.uniform(178, 180), chance.uniform(88.5, 89.9))
    longitude, latitude = before[0] + chance.uniform(-1, 1), before[1] + chance.uniform(-0.1, 0.1)
    return ((longitude + 180) % 360 - 180, latitude) if latitude < 90 else (0.0, 90.0)


GROUNDS = {
    "grid": Ground(
        Space(
            Grid(16, 16, Neighbourhood.MOORE, torus=True),
            (Region("corner", Box((14.0, 14.0), (2.0, 2.0))), Region("middle", Disc((8.0, 8.0), 3.0))),
            (Proximity("met", 1.0), Proximity("hunted", 3.0, "a*", "b*")),
        ),
        on_grid,
        walk_cells,
    ),
    "plane": Ground(
        Space(
            Plane(0.0, 0.0, 10.0, 10.0, torus=True),
            (Region("corner", Box((9.0, 8.5), (1.0, 2.0))), Region("middle", Disc((5.0, 5.0), 2.0))),
            (Proximity("met", 1.0), Proximity("hunted", 2.5, "a*", "b*")),
        ),
        on_plane,
        walk_plane,
    ),
    "earth": Ground(
        Space(
            Geo(),
            (Region("line", Box((179.0, 88.0), (-179.0, 89.5))), Region("camp", Disc((180.0, 89.0), 20_000.0))),
            (Proximity("met", 5_000.0), Proximity("hunted", 20_000.0, "a*", "b*")),
        ),
        on_earth,
        walk_earth,
    ),
}


class Walkers:
    """A world with entries that walk about, and what its events have told."""

    def __init__(self, ground: Ground, chance: random.Random) -> None:
        self.ground = ground
        self.chance = chance
        self.stand = Stand()
        self.stand.done(new_environment(PATH, space=ground.space))
        self.keys = [f"{'abc'[index % 3]}{index}" for index in range(ENTRIES)]
        self.here: dict[str, Position] = {}
        self.there: set[str] = set()
        self.told: set[tuple[str, str, str]] = set()
        self.seen = self.stand.world.revision

    def frame(self) -> int:
        """Some ops, some of them together; returns how many moved somebody."""
        moved = 0
        ops = []
        for _ in range(FRAME):
            before, writes = (dict(self.here), set(self.there)), []
            for _ in range(self.chance.choice((1, 1, 1, 3))):
                writes.append(self.write())
                moved += self.take(writes[-1])
            fails = len(writes) > 1 and self.chance.random() < 0.3
            if len(writes) == 1:
                ops.append(Op(PATH, writes[0].key, writes[0].code, writes[0].argument))
                continue
            if fails:
                writes.append(Write(PATH, "nobody", Code.DELETE_ENTRY, Delete()))
                self.here, self.there = before
            ops.append(Op("/", "", Code.TRANSACT, Transact((), tuple(writes))))
        self.stand.do(*ops)
        return moved

    def write(self) -> Write:
        """Of an entry that the model has as it will be then."""
        key = self.chance.choice(self.keys)
        luck = self.chance.random()
        position = self.ground.step(self.chance, self.here.get(key))
        if key not in self.there or luck < 0.15:
            return Write(PATH, key, Code.PLACE, Placed(1.0, position))
        if luck < 0.2:
            return Write(PATH, key, Code.DELETE_ENTRY, Delete(if_present=True))
        if luck < 0.25:
            return Write(PATH, key, Code.SET, 2.0)
        return Write(PATH, key, Code.MOVE, () if luck < 0.3 else position)

    def take(self, write: Write) -> bool:
        """What a write does to the model; whether somebody moved."""
        argument: Any = write.argument
        if write.code == Code.DELETE_ENTRY:
            self.there.discard(write.key)
            return self.here.pop(write.key, None) is not None
        if write.code == Code.SET:
            self.there.add(write.key)
            return False
        if write.code == Code.PLACE:
            self.there.add(write.key)
            argument = argument.position
        if argument:
            self.here[write.key] = argument
        else:
            self.here.pop(write.key, None)
        return True

    def listen(self) -> None:
        """Takes over the events since the last time: each must change what was told before."""
        for changes in self.stand.log.read(self.seen + 1, 1 << 62):
            for row, type_ in enumerate(changes.types):
                if changes.revisions[row] <= self.seen or type_ not in CROSSINGS:
                    continue
                document = changes.values[row].document  # type: ignore[union-attr]
                name = document.get("region") or document["proximity"]
                crossing = (name, changes.keys[row], document.get("other", ""))
                assert (crossing in self.told) is (type_ not in ENTERED), (type_, crossing)
                self.told ^= {crossing}
        self.seen = self.stand.world.revision

    def expected(self) -> set[tuple[str, str, str]]:
        """Who is where and near whom, by brute force."""
        space, found = self.ground.space, set()
        for key, position in self.here.items():
            found |= {(region.name, key, "") for region in space.regions if self.ground.inside(region, position)}
        for one, other in itertools.combinations(sorted(self.here), 2):
            distance = self.ground.measure(self.here[one], self.here[other])
            for proximity in space.proximities:
                pairs = proximity.name == "met" or {one[0], other[0]} == {"a", "b"}
                if pairs and distance <= proximity.distance:
                    found |= {(proximity.name, one, other), (proximity.name, other, one)}
        return found

    def check(self) -> None:
        """The world is where the model is, and its events add up to that."""
        self.listen()
        node = self.stand.world._tree.nodes.by_path[PATH]
        assert {key: entry.position for key, entry in node.entries.items() if entry.position} == self.here
        assert set(node.entries) == self.there
        assert self.told == self.expected()
        if self.here:
            centre = next(iter(self.here.values()))
            page: Any = self.stand.done(Op(PATH, "", Code.QUERY, Query(Nearby(centre, nearest=ENTRIES))))[0]
            assert set(page.keys) == set(self.here)


def run(ground: Ground, seed: int, moves: int) -> None:
    chance = random.Random(seed)
    walkers = Walkers(ground, chance)
    done = 0
    while done < moves:
        done += walkers.frame()
        if chance.random() < 0.05:
            walkers.stand.reopen()
        if chance.random() < 0.01:
            walkers.listen()
            walkers.stand.stop()
            walkers.stand.open()
        walkers.check()


@pytest.mark.parametrize("ground", GROUNDS)
def test_no_crossing_is_lost_or_told_twice(ground: str, seed: int) -> None:
    run(GROUNDS[ground], seed, 500 if ground == "earth" else 2_000)


@pytest.mark.long
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("ground", GROUNDS)
def test_no_crossing_is_lost_or_told_twice_for_long(ground: str, seed: int) -> None:
    run(GROUNDS[ground], seed, int(os.environ.get("ECUMENE_CROSSING_MOVES", "100000")))
