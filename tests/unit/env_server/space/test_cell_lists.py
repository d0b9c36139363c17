"""Cell lists tell what the index itself tells, bit for bit, of any radius and on both sides of a seam."""

import math
import random
from collections.abc import Sequence

import pytest

from env_server.model.errors import InvalidRequest, LimitExceeded, Reason
from env_server.model.limits import Limits
from env_server.model.ports import SpaceIndex, Vicinities
from env_server.model.spaces import Geo, Graph, Grid, Neighbourhood, Plane, Position, Shape
from env_server.space import cell_lists
from env_server.space.spaces import open_space

SIDE = 24
TINY = 1e-290
PLANES = [
    Plane(-7.0, 3.0, SIDE - 7.0, SIDE + 3.0),
    Plane(-7.0, 3.0, SIDE - 7.0, SIDE + 3.0, torus=True),
    Plane(0.0, 0.0, SIDE, 0.5, torus=True),
    Plane(0.0, 0.0, TINY, TINY, torus=True),
]
GRIDS = [
    Grid(SIDE, height, neighbourhood, torus=torus)
    for neighbourhood in (Neighbourhood.MOORE, Neighbourhood.VON_NEUMANN, Neighbourhood.HEX)
    for torus in (False, True)
    for height in (SIDE, 2)
]
RADII = [0.0, 0.3, 1.0, 1.5, 2.0, 5.0, SIDE / 2, SIDE - 0.5, 3.0 * SIDE, math.inf]


def draw(shape: Shape, rng: random.Random) -> Position:
    """Anywhere, and often enough at an edge or where others are."""
    if isinstance(shape, Grid):
        return float(rng.randrange(shape.width)), float(rng.randrange(shape.height))
    assert isinstance(shape, Plane)
    share = rng.choice([rng.random(), 0.0, 1.0 - 2.0**-53, rng.randrange(8) / 8])
    other = rng.choice([rng.random(), 0.0, 1.0 - 2.0**-53, rng.randrange(8) / 8])
    x = shape.x_min + (shape.x_max - shape.x_min) * share
    y = shape.y_min + (shape.y_max - shape.y_min) * other
    return min(x, math.nextafter(shape.x_max, -math.inf)), min(y, math.nextafter(shape.y_max, -math.inf))


def fill(shape: Shape, radius: float, count: int, limits: Limits) -> tuple[SpaceIndex, Vicinities, list[Position]]:
    rng = random.Random(f"{shape} {radius}")
    index = open_space(shape, limits)
    vicinities = index.vicinities(radius)
    assert vicinities is not None
    positions = [index.check(draw(shape, rng)) for _ in range(count)]
    for number, position in enumerate(positions):
        index.put(f"k{number:03}", position)
    vicinities.put(positions[: count // 2])
    vicinities.put(positions[count // 2 :])
    return index, vicinities, positions


def find_all(vicinities: Vicinities, asked: Sequence[int]) -> dict[int, list[str]]:
    """By number the keys of neighbours, found in as many steps as it takes."""
    found: dict[int, list[str]] = {}
    while len(found) < len(asked):
        some = asked[len(found) :]
        counts, neighbours = vicinities.find(some)
        assert 0 < len(counts) <= len(some) and sum(counts) == len(neighbours)
        for number, count in zip(some, counts, strict=False):
            found[number] = [f"k{other:03}" for other in neighbours[:count]]
            del neighbours[:count]
    return found


@pytest.mark.parametrize("radius", RADII)
@pytest.mark.parametrize("shape", [*PLANES, *GRIDS], ids=str)
def test_all_that_are_near_are_told_as_the_index_tells_them(shape: Shape, radius: float) -> None:
    if isinstance(shape, Plane):
        radius *= (shape.x_max - shape.x_min) / SIDE
    index, vicinities, positions = fill(shape, radius, 80, Limits())
    for number, keys in find_all(vicinities, range(80)).items():
        key = f"k{number:03}"
        assert keys == [other for _, other in index.within(positions[number], radius) if other != key]
    few = [7, 3, 70]
    assert list(find_all(vicinities, few)) == few


@pytest.mark.parametrize("shape", [PLANES[1], GRIDS[0], GRIDS[-2]], ids=str)
def test_many_are_found_in_several_steps(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_lists, "_LOOKS_AT_ONCE_MAX", 100)
    monkeypatch.setattr(cell_lists, "_SORTED_AT_ONCE_MAX", 16)
    index, vicinities, positions = fill(shape, 3.0, 200, Limits())
    for number, keys in find_all(vicinities, range(200)).items():
        key = f"k{number:03}"
        assert keys == [other for _, other in index.within(positions[number], 3.0) if other != key]


def test_who_comes_later_is_seen_too() -> None:
    _, vicinities, positions = fill(PLANES[1], 2.0, 50, Limits())
    before = find_all(vicinities, [0])[0]
    vicinities.put([positions[0]])
    assert sorted(find_all(vicinities, [0])[0]) == sorted([*before, "k050"])


def test_a_crowd_is_not_looked_at_beyond_the_limit() -> None:
    _, vicinities, _ = fill(Grid(4, 4), 1.0, 100, Limits(space_looks_max=60))
    with pytest.raises(LimitExceeded):
        vicinities.find([0])


@pytest.mark.parametrize("shape", [PLANES[0], GRIDS[0], Geo(), Graph(2, ((0, 1, 1.0),))], ids=str)
def test_a_radius_that_is_none_is_refused(shape: Shape) -> None:
    index = open_space(shape, Limits())
    for radius in (-1.0, math.nan):
        with pytest.raises(InvalidRequest) as refused:
            index.vicinities(radius)
        assert refused.value.reason is Reason.INVALID_FIELD


def test_where_blocks_say_nothing_there_are_none() -> None:
    assert open_space(Geo(), Limits()).vicinities(1.0) is None
    assert open_space(Graph(2, ((0, 1, 1.0),)), Limits()).vicinities(1.0) is None
