"""What each op in a space tells, row by row and in order, is what brute force tells; so is why it is refused.

Cells and nodes hold few, regions and proximities change between the moves of a frame, transactions fail in the middle,
the world is reopened. Coordinates are the worst that a shape accepts, and some that it does not.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, NamedTuple

import networkx
import pytest

from env_server.model.changes import EventType
from env_server.model.errors import WorldError
from env_server.model.operations import Code, Delete, EnvironmentUpdate, Placed, Transact, Write
from env_server.model.spaces import (
    Area,
    Box,
    Disc,
    Graph,
    Grid,
    Neighbourhood,
    NodeSet,
    Plane,
    Position,
    Proximity,
    Region,
    Space,
)
from tests.engine import Op, Stand, new_environment

PATH = "/town"
KEYS = ("a1", "a2", "b1", "b2", "c")
Row = tuple[int, str, Any]
"""Type, key, and what it tells: a value, a position, the document of a crossing."""


class Ground(NamedTuple):
    """A shape, and how positions, distances and radii of it are found without an index."""

    shape: Grid | Plane | Graph
    draw: Callable[[], Position]
    measure: Callable[[Position, Position], float]
    radii: tuple[float, ...]

    @property
    def capacity(self) -> int:
        return 0 if isinstance(self.shape, Plane) else self.shape.capacity

    @property
    def wraps(self) -> bool:
        return not isinstance(self.shape, Graph) and self.shape.torus


def grid(chance: random.Random) -> Ground:
    width, height = chance.choice(((1, 1), (3, 3), (5, 4), (8, 8)))
    neighbourhood, torus = chance.choice(tuple(Neighbourhood)), chance.random() < 0.3 and height % 2 == 0
    shape = Grid(width, height, neighbourhood, torus=torus, capacity=chance.randrange(4))

    def cube(column: float, row: float) -> tuple[float, float, float]:
        x = column - (row - row % 2) / 2
        return x, row, -x - row

    def steps(one: Position, other: Position) -> float:
        x, y = abs(one[0] - other[0]), abs(one[1] - other[1])
        if neighbourhood is Neighbourhood.HEX:
            return max(abs(a - b) for a, b in zip(cube(*one), cube(*other), strict=True))
        return max(x, y) if neighbourhood is Neighbourhood.MOORE else x + y

    def measure(one: Position, other: Position) -> float:
        images = itertools.product((-width, 0, width), (-height, 0, height)) if torus else [(0, 0)]
        return min(steps(one, (other[0] + x, other[1] + y)) for x, y in images)

    def draw() -> Position:
        return (float(chance.randrange(width)), float(chance.randrange(height)))

    return Ground(shape, draw, measure, (0.0, 1.0, 1.5, 2.0, 100.0))


def plane(chance: random.Random) -> Ground:
    bounds = chance.choice(
        (
            (0.0, 0.0, 10.0, 10.0),
            (-1e-290, -1e-290, 1e-290, 1e-290),
            (1e15, 1e15, 1e15 + 8, 1e15 + 8),
            (-1e150, -1.0, 1e150, 1.0),
        )
    )
    torus = chance.random() < 0.5
    lows, highs = bounds[:2], bounds[2:]
    sides = [high - low for low, high in zip(lows, highs, strict=True)]

    def on_axis(low: float, high: float) -> float:
        near = math.nextafter(low, high), math.nextafter(high, low), 5e-324, -0.0
        at = chance.choice((low, high, low + (high - low) / 2, chance.uniform(low, high), *near))
        return at if low <= at < high or (at == high and not torus) else low

    def measure(one: Position, other: Position) -> float:
        gaps = [abs(a - b) for a, b in zip(one, other, strict=True)]
        return math.hypot(*(min(gap, side - gap) if torus else gap for gap, side in zip(gaps, sides, strict=True)))

    return Ground(
        Plane(*bounds, torus=torus),
        lambda: tuple(map(on_axis, lows, highs)),
        measure,
        (0.0, 5e-324, sides[0] / 4, sides[1] / 4, 2 * sides[0], 1e308),
    )


def graph(chance: random.Random) -> Ground:
    nodes = chance.choice((1, 2, 6, 12))
    weights = chance.choice(((0.0,), (0.0, 1.0), (0.1, 0.2, 0.3), (1e-300, 1e300), (5e-324, 1.0)))
    edges = tuple(
        (chance.randrange(nodes), chance.randrange(nodes), chance.choice(weights))
        for _ in range(chance.choice((0, nodes, 2 * nodes)))
    )
    net = networkx.MultiGraph()
    net.add_nodes_from(range(nodes))
    net.add_edges_from((one, other, {"weight": Fraction(weight)}) for one, other, weight in edges)
    lengths = dict(networkx.all_pairs_dijkstra_path_length(net))

    def measure(one: Position, other: Position) -> float:
        return float(lengths[int(one[0])].get(int(other[0]), math.inf))

    shape = Graph(nodes, edges, capacity=chance.randrange(3))
    return Ground(shape, lambda: (float(chance.randrange(nodes)),), measure, (0.0, 5e-324, 0.1, 0.5, 1.0, 1e300))


class Refused(Exception):
    """An op that changes nothing, by the name of its reason."""


class Model:
    """Who is where, by a look at all of them."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.there: dict[str, Any] = {}
        self.here: dict[str, Position] = {}
        self.regions: dict[str, Area] = {}
        self.proximities: dict[str, Proximity] = {}

    def together(self, writes: list[Write]) -> list[Row]:
        """The rows of writes that are one op. Raises Refused: none of them was made."""
        parts: tuple[dict[str, Any], ...] = (self.there, self.here, self.regions, self.proximities)
        before = [dict(part) for part in parts]
        try:
            return [row for write in writes for row in self.write(write)]
        except Refused:
            for part, was in zip(parts, before, strict=True):
                part.clear()
                part.update(was)
            raise

    def write(self, write: Write) -> list[Row]:
        key, argument = write.key, write.argument
        if isinstance(argument, EnvironmentUpdate):
            return self.update(argument)
        if write.code == Code.SET:
            self.there[key] = argument
            return [(EventType.ENTRY_SET, key, argument)]
        if key not in self.there and write.code != Code.PLACE:
            raise Refused("ENTRY_NOT_FOUND")
        before = self.here.get(key)
        if isinstance(argument, Delete):
            crossed = self.cross(key, before, None)
            self.here.pop(key, None)
            del self.there[key]
            return [(EventType.ENTRY_DELETED, key, None), *crossed]
        position: Any = argument.position if isinstance(argument, Placed) else argument
        after = self.check(position, before) if position else None
        rows: list[Row] = []
        if isinstance(argument, Placed):
            self.there[key] = argument.value
            rows.append((EventType.ENTRY_SET, key, argument.value))
        rows += [(EventType.ENTRY_MOVED, key, after or ()), *self.cross(key, before, after)]
        self.here.pop(key, None)
        if after is not None:
            self.here[key] = after
        return rows

    def update(self, asked: EnvironmentUpdate) -> list[Row]:
        if {*asked.remove_regions} - {*self.regions} or {*asked.remove_proximities} - {*self.proximities}:
            raise Refused("REGION_NOT_FOUND")
        for name in asked.remove_regions:
            del self.regions[name]
        for name in asked.remove_proximities:
            del self.proximities[name]
        self.regions.update((region.name, region.area) for region in asked.set_regions)
        self.proximities.update((proximity.name, proximity) for proximity in asked.set_proximities)
        return [(EventType.ENVIRONMENT_UPDATED, "", None)]

    def check(self, position: Position, before: Position | None) -> Position:
        if len(position) != (1 if isinstance(self.ground.shape, Graph) else 2) or not all(map(is_small, position)):
            raise Refused("INVALID_POSITION")
        position = tuple(number + 0.0 for number in position)
        capacity = self.ground.capacity
        if capacity and position != before and [*self.here.values()].count(position) >= capacity:
            raise Refused("CELL_FULL")
        return position

    def cross(self, key: str, before: Position | None, after: Position | None) -> list[Row]:
        rows: list[Row] = []
        for name, area in sorted(self.regions.items()):
            was, now = self.inside(area, before), self.inside(area, after)
            if was != now:
                rows.append((EventType.REGION_ENTERED if now else EventType.REGION_LEFT, key, {"region": name}))
        for name, proximity in sorted(self.proximities.items()):
            for other in sorted({*self.here} - {key}):
                if not (makes_pair(proximity, key, other) or makes_pair(proximity, other, key)):
                    continue
                disc = Disc(self.here[other], proximity.distance)
                was, now = self.inside(disc, before), self.inside(disc, after)
                if was != now:
                    type_ = EventType.PROXIMITY_ENTERED if now else EventType.PROXIMITY_LEFT
                    rows += [
                        (type_, one, {"proximity": name, "other": two}) for one, two in ((key, other), (other, key))
                    ]
        return rows

    def inside(self, area: Area, position: Position | None) -> bool:
        if position is None:
            return False
        if isinstance(area, NodeSet):
            return position[0] in area.nodes
        if isinstance(area, Disc):
            return self.ground.measure(area.centre, position) <= min(area.radius, 1.7e308)
        return all(
            low <= at <= high if low <= high else at >= low or at <= high
            for low, at, high in zip(area.low, position, area.high, strict=True)
        )


def is_small(number: float) -> bool:
    return abs(number) < 1e300


def makes_pair(proximity: Proximity, one: str, other: str) -> bool:
    return fnmatchcase(one, proximity.key_glob or "*") and fnmatchcase(other, proximity.other_key_glob or "*")


def draw_area(ground: Ground, chance: random.Random) -> Area:
    here, there = ground.draw(), ground.draw()
    if isinstance(ground.shape, Graph) and chance.random() < 0.4:
        return NodeSet(frozenset((int(here[0]), int(there[0]))))
    if isinstance(ground.shape, Graph) or chance.random() < 0.5:
        return Disc(here, chance.choice(ground.radii))
    if ground.wraps:
        return Box(here, there)
    return Box(tuple(map(min, here, there)), tuple(map(max, here, there)))


def draw_write(ground: Ground, chance: random.Random) -> Write:
    key, luck = chance.choice(KEYS), chance.random()
    if luck < 0.12:
        return Write(PATH, key, Code.DELETE_ENTRY, Delete())
    if luck < 0.2:
        return Write(PATH, key, Code.SET, chance.randrange(9))
    if luck < 0.32:
        globs = chance.choice((("", ""), ("a*", "b*"), ("a*", ""), ("a*", "a*")))
        near = Proximity(chance.choice(("p", "q")), chance.choice(ground.radii), *globs)
        update = chance.choice(
            (
                EnvironmentUpdate(set_regions=(Region(chance.choice("rs"), draw_area(ground, chance)),)),
                EnvironmentUpdate(set_proximities=(near,), remove_regions=(chance.choice("rs"),)),
                EnvironmentUpdate(set_proximities=(near,)),
                EnvironmentUpdate(remove_proximities=(chance.choice(("p", "q")),)),
            )
        )
        return Write(PATH, "", Code.UPDATE_ENVIRONMENT, update)
    position = ground.draw()
    if luck < 0.4:
        bad = (*(len(position) * (number,) for number in (math.nan, math.inf, 1e300, -1e300)), (0.0,) * 5)
        position = chance.choice(((), *bad))
    if luck < 0.6:
        return Write(PATH, key, Code.PLACE, Placed(chance.randrange(9), position))
    return Write(PATH, key, Code.MOVE, position)


def rows_since(stand: Stand, revision: int) -> list[Row]:
    """What the log tells of later revisions; of a deletion or an update only that it was."""
    rows: list[Row] = []
    for changes in stand.log.read(revision + 1, 1 << 62):
        for row, type_ in enumerate(changes.types):
            value: Any = changes.values[row]
            if type_ >= EventType.REGION_ENTERED:
                value = value.document
            elif type_ in (EventType.ENTRY_DELETED, EventType.ENVIRONMENT_UPDATED):
                value = None
            if changes.revisions[row] > revision:
                rows.append((type_, changes.keys[row], value))
    return rows


def run(ground: Ground, chance: random.Random, frames: int) -> None:
    stand, model = Stand(), Model(ground)
    stand.done(new_environment(PATH, space=Space(ground.shape)))
    for _ in range(frames):
        revision, ops, expected, reasons = stand.world.revision, [], [], []
        for _ in range(chance.choice((1, 4, 10))):
            writes = [draw_write(ground, chance) for _ in range(chance.choice((1, 1, 2, 4)))]
            one = writes[0]
            alone = Op(PATH, one.key, one.code, one.argument)
            ops.append(alone if len(writes) == 1 else Op("/", "", Code.TRANSACT, Transact((), tuple(writes))))
            try:
                expected += model.together(writes)
                reasons.append("")
            except Refused as refused:
                reasons.append(str(refused))
        sent = stand.do(*ops)
        outcomes = [sent.outcome(index) for index in range(len(ops))]
        assert [one.reason.name if isinstance(one, WorldError) else "" for one in outcomes] == reasons
        assert rows_since(stand, revision) == expected
        if chance.random() < 0.15:
            stand.reopen()
        node = stand.world._tree.nodes.by_path[PATH]
        assert {key: entry.position for key, entry in node.entries.items() if entry.position} == model.here


@pytest.mark.parametrize("draw_ground", [grid, plane, graph])
def test_each_op_tells_what_brute_force_tells(draw_ground: Callable[[random.Random], Ground], seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(8):
        run(draw_ground(chance), chance, frames=20)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("draw_ground", [grid, plane, graph])
def test_each_op_tells_what_brute_force_tells_for_long(
    draw_ground: Callable[[random.Random], Ground], seed: int
) -> None:
    chance = random.Random(seed)
    for _ in range(500):
        run(draw_ground(chance), chance, frames=20)
