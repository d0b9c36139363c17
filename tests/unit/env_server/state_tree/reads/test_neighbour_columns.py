"""Tables of many rows that are found in columns tell what single questions tell."""

from __future__ import annotations

import random
from typing import Any

import pytest

from env_server.model.errors import Reason
from env_server.model.limits import Limits
from env_server.model.operations import Code, Neighbours
from env_server.model.ports import SpaceIndex
from env_server.model.spaces import Grid, Neighbourhood, Plane, Position, Shape, Space
from env_server.space.spaces import open_space
from env_server.state_tree.reads import neighbour_columns
from tests.engine import Op, Stand, new_environment, put
from tests.unit.env_server.state_tree.reads.test_neighbour_tables import ask, place, table_of

SIDE = 100.0
TINY = 1e-290
SHAPES: list[Shape] = [
    Plane(0.0, 0.0, SIDE, SIDE),
    Plane(0.0, 0.0, SIDE, SIDE, torus=True),
    Grid(40, 30),
    Grid(40, 30, Neighbourhood.HEX, torus=True),
]
COUNT = 240


def spread(where: str, number: int, chance: random.Random) -> tuple[float, float]:
    """Shares of both axes."""
    match where:
        case "evenly":
            return chance.random(), chance.random()
        case "in clusters":
            return (number % 3 / 3 + chance.random() * 1e-3, number % 5 / 5 + chance.random() * 1e-3)
        case "on a line":
            return chance.random(), 0.5
        case "far from a crowd":
            return (0.99, 0.99) if number < 5 else (0.5 + chance.random() / 100, 0.5)
    return 0.5, 0.5


def draw(shape: Shape, where: str, chance: random.Random) -> dict[str, Position]:
    shares = [spread(where, number, chance) for number in range(COUNT)]
    if isinstance(shape, Grid):
        positions = [(float(int(x * shape.width)), float(int(y * shape.height))) for x, y in shares]
    else:
        assert isinstance(shape, Plane)
        positions = [(x * shape.x_max, y * shape.y_max) for x, y in shares]
    return {f"k{number}": position for number, position in enumerate(positions)}


def fill(shape: Shape, where: dict[str, Position], limits: Limits | None = None) -> tuple[Stand, SpaceIndex]:
    stand = Stand(limits=limits or Limits())
    stand.done(new_environment("/g", space=Space(shape)))
    stand.done(*(place(*one) for one in where.items()), put("/g", "nowhere", 0))
    index = open_space(shape, Limits())
    for key, position in where.items():
        index.put(key, position)
    return stand, index


def found(outcome: Any, where: dict[str, Position]) -> dict[str, list[str]]:
    names = [*outcome.keys, *outcome.others]
    assert outcome.positions == [where[name] for name in names]
    return table_of(outcome)


@pytest.mark.parametrize("distribution", ["evenly", "in clusters", "on a line", "far from a crowd", "in one point"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_nearest_of_many_are_told_as_of_one(shape: Shape, distribution: str, seed: int) -> None:
    chance = random.Random(seed)
    where = draw(shape, distribution, chance)
    stand, index = fill(shape, where)
    for count in (1, 8, COUNT + 5):
        keys = tuple(chance.sample(sorted(where), 140))
        sent = stand.send(ask(Neighbours(nearest=count)), ask(Neighbours(nearest=count, keys=keys)))
        while not sent.done:
            stand.clock.step()
        whole, some = (found(sent.outcome(number), where) for number in range(2))
        assert list(whole) == sorted(where) and list(some) == list(keys)
        near = {
            key: [other for _, other in index.nearest(where[key], count + 1) if other != key][:count] for key in where
        }
        assert whole == near
        assert some == {key: near[key] for key in keys}


def test_very_small_planes_have_nearest_too() -> None:
    shape = Plane(0.0, 0.0, TINY, TINY)
    where = draw(shape, "evenly", random.Random(1))
    stand, index = fill(shape, where)
    told = found(stand.do(ask(Neighbours(nearest=3))).outcome(), where)
    assert told == {key: [other for _, other in index.nearest(where[key], 4) if other != key] for key in where}


@pytest.mark.parametrize("distribution", ["evenly", "far from a crowd"])
def test_only_where_they_are_crowded_are_they_looked_for_one_by_one(
    distribution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Position] = []
    find = neighbour_columns.find_nearest
    monkeypatch.setattr(neighbour_columns, "_LOOKS_A_NEIGHBOUR", 40)

    def note(index: SpaceIndex, one: Any, *rest: Any) -> Any:
        return find(index, lambda among, position: asked.append(position) or one(among, position), *rest)

    monkeypatch.setattr("env_server.state_tree.reads.spatial.find_nearest", note)
    where = draw(SHAPES[0], distribution, random.Random(2))
    stand, _ = fill(SHAPES[0], where)
    stand.do(ask(Neighbours(nearest=4))).outcome()
    assert len(asked) == (0 if distribution == "evenly" else COUNT)


@pytest.mark.parametrize(
    ("asked", "limits", "limit"),
    [
        (Neighbours(nearest=COUNT - 10), Limits(space_looks_max=COUNT // 2), "space_looks_max"),
        (Neighbours(nearest=3), Limits(neighbours_looks_max=1000), "neighbours_looks_max"),
        (Neighbours(radius=20.0), Limits(neighbours_looks_max=1000), "neighbours_looks_max"),
    ],
)
def test_a_table_looks_at_no_more_than_rows_and_tables_may(asked: Neighbours, limits: Limits, limit: str) -> None:
    stand, _ = fill(SHAPES[0], draw(SHAPES[0], "evenly", random.Random(3)), limits)
    error: Any = stand.do(ask(asked)).outcome()
    assert (error.reason, error.metadata["limit"]) == (Reason.LIMIT_EXCEEDED, limit)


def test_nobody_who_is_somewhere_has_no_rows() -> None:
    stand = Stand()
    stand.done(new_environment("/g", space=Space(SHAPES[0])), *(put("/g", f"k{number}", 0) for number in range(300)))
    told: Any = stand.do(ask(Neighbours(nearest=2))).outcome()
    assert (told.keys, told.counts, told.neighbours) == ([], [], [])


def test_within_one_radius_many_are_told_as_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    for shape, radius in ((Plane(0.0, 0.0, 100.0, 100.0, True), 7.5), (Grid(40, 30), 2.0)):
        stand = Stand()
        stand.done(new_environment("/g", space=Space(shape)))
        where = {f"k{index}": (float(chance.randrange(40)), float(chance.randrange(30))) for index in range(700)}
        stand.done(*(place(*one) for one in where.items()), put("/g", "nowhere", 0))
        keys = tuple(chance.sample(sorted(where), 300))
        sent = stand.send(
            ask(Neighbours(radius=radius)),
            ask(Neighbours(radius=radius, keys=keys)),
            *(Op("/g", key, Code.MOVE, (0.0, 0.0)) for key in where),
        )
        revision = stand.world.revision - len(where)
        while not sent.done:
            stand.clock.step()
        whole, some = table_of(sent.outcome(0)), table_of(sent.outcome(1))  # type: ignore[arg-type]
        assert list(whole) == sorted(where) and list(some) == list(keys)
        assert sent.outcome(0).revision == revision  # type: ignore[union-attr]
        index = open_space(shape, Limits())
        for key, position in where.items():
            index.put(key, position)
        for key, others in (*whole.items(), *some.items()):
            assert others == [other for _, other in index.within(where[key], radius) if other != key]
        for outcome in (sent.outcome(0), sent.outcome(1)):
            names = [*outcome.keys, *outcome.others]  # type: ignore[union-attr]
            assert outcome.positions == [where[name] for name in names]  # type: ignore[union-attr]
