"""Grids of every neighbourhood, size and wrapping, against cells walked step by step."""

import itertools
import math
import random
from collections import deque

import pytest

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.spaces import Box, Grid, Neighbourhood, Position
from env_server.space.spaces import open_space
from tests.contracts.space_index import Stand, check_space_index

SIZES = [(1, 1), (1, 2), (2, 1), (1, 7), (7, 1), (2, 2), (3, 3), (2, 5), (5, 4), (9, 6), (40, 30)]
STEPS = {
    Neighbourhood.MOORE: [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y],
    Neighbourhood.VON_NEUMANN: [(-1, 0), (1, 0), (0, -1), (0, 1)],
}
#: Of an even and of an odd row, which is shifted right by half a cell.
HEX_STEPS = [
    [(-1, 0), (1, 0), (-1, -1), (0, -1), (-1, 1), (0, 1)],
    [(-1, 0), (1, 0), (0, -1), (1, -1), (0, 1), (1, 1)],
]
GRIDS = [
    Grid(width, height, neighbourhood, torus)
    for (width, height), neighbourhood, torus in itertools.product(SIZES, Neighbourhood, (False, True))
    if not (neighbourhood == Neighbourhood.HEX and torus and height % 2)
]


def neighbours(grid: Grid, cell: tuple[int, int]) -> set[tuple[int, int]]:
    """By the definition: the cells that one step leads to."""
    steps = HEX_STEPS[cell[1] % 2] if grid.neighbourhood == Neighbourhood.HEX else STEPS[grid.neighbourhood]
    found = set()
    for x, y in steps:
        column, row = cell[0] + x, cell[1] + y
        if grid.torus:
            column, row = column % grid.width, row % grid.height
        if 0 <= column < grid.width and 0 <= row < grid.height:
            found.add((column, row))
    return found - {cell}


def walk(grid: Grid, start: tuple[int, int]) -> dict[tuple[int, int], int]:
    """How many steps lead to each cell."""
    steps = {start: 0}
    queue = deque([start])
    while queue:
        cell = queue.popleft()
        for other in neighbours(grid, cell):
            if other not in steps:
                steps[other] = steps[cell] + 1
                queue.append(other)
    return steps


def stand_of(grid: Grid) -> Stand:
    walked: dict[tuple[int, int], dict[tuple[int, int], int]] = {}

    def draw(rng: random.Random) -> Position:
        return rng.randrange(grid.width), rng.randrange(grid.height)

    def measure(one: Position, other: Position) -> float:
        start = (int(one[0]), int(one[1]))
        if start not in walked:
            walked[start] = walk(grid, start)
        return walked[start][int(other[0]), int(other[1])]

    def inside(box: Box, position: Position) -> bool:
        return all(
            low <= value <= high or (grid.torus and low > high and (value >= low or value <= high))
            for low, value, high in zip(box.low, position, box.high, strict=True)
        )

    return Stand(open_space, grid, draw, measure, inside)


@pytest.mark.parametrize(
    "grid", GRIDS, ids=lambda grid: f"{grid.width}x{grid.height}-{grid.neighbourhood.name}-{grid.torus}"
)
def test_every_query_tells_what_a_look_at_all_tells(grid: Grid, seed: int) -> None:
    check_space_index(stand_of(grid), seed, entries=40)


@pytest.mark.parametrize(
    "grid", GRIDS, ids=lambda grid: f"{grid.width}x{grid.height}-{grid.neighbourhood.name}-{grid.torus}"
)
def test_cells_are_next_to_those_that_are_next_to_them(grid: Grid) -> None:
    index = open_space(grid, Limits())
    cells = [(x, y) for x in range(min(grid.width, 9)) for y in range(grid.height)]
    for cell in cells:
        index.put(f"{cell[0]},{cell[1]}", index.check(cell))
    for cell in cells:
        told = {tuple(map(int, key.split(","))): steps for steps, key in index.adjacent(cell)}
        assert told == {cell: 0.0} | {other: 1.0 for other in neighbours(grid, cell) if other in cells}
        for other in told:
            assert f"{cell[0]},{cell[1]}" in [key for _, key in index.adjacent(other)]


@pytest.mark.parametrize("height", [1, 3, 5, 101])
def test_a_torus_of_hexagons_with_an_odd_number_of_rows_is_refused(height: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        open_space(Grid(4, height, Neighbourhood.HEX, torus=True), Limits())
    assert caught.value.reason == Reason.INVALID_FIELD
    assert "even number of rows" in caught.value.message
    open_space(Grid(4, height, Neighbourhood.HEX), Limits())


@pytest.mark.parametrize(
    "grid",
    [Grid(0, 1), Grid(1, 0), Grid(-1, 1), Grid(2**32, 1), Grid(1, 1, capacity=-1), Grid(True, 1), Grid(1.0, 1)],  # type: ignore[arg-type]
)
def test_sides_that_are_none_are_refused(grid: Grid) -> None:
    with pytest.raises(InvalidRequest) as caught:
        open_space(grid, Limits())
    assert caught.value.reason == Reason.INVALID_FIELD


def test_what_is_no_cell_is_an_error_and_never_an_empty_answer() -> None:
    index = open_space(Grid(5, 5, torus=True), Limits())
    index.put("a", (0.0, 0.0))
    for cell in ((5, 0), (0, 5), (-1, 0), (0.5, 0), (4.999999, 1)):
        for ask in (index.check, index.adjacent, lambda cell: index.in_box(Box(cell, (1.0, 1.0)))):
            with pytest.raises(InvalidRequest) as caught:
                ask(cell)
            assert caught.value.reason == Reason.INVALID_POSITION


def test_a_huge_grid_takes_no_memory_and_knows_its_far_corners() -> None:
    for neighbourhood in Neighbourhood:
        side = 2**32 - 2
        index = open_space(Grid(side, side, neighbourhood, torus=True), Limits())
        corners = {f"{x},{y}": (float(x), float(y)) for x in (0, side - 1) for y in (0, side - 1)}
        for key, cell in corners.items():
            index.put(key, index.check(cell))
        near = index.nearest((0.0, 0.0), 9)
        assert near == sorted((index.distance((0.0, 0.0), cell), key) for key, cell in corners.items())
        assert near[-1][0] <= 2
        assert index.looked < 200
        assert len(index.within((1.0, 1.0), 2**31)) == 4


def test_a_cell_holds_as_many_as_it_may() -> None:
    index = open_space(Grid(3, 3, capacity=2), Limits())
    here = (1.0, 1.0)
    for number, key in enumerate(["a", "b"]):
        assert not index.is_full(here), number
        index.put(key, here)
    assert index.is_full(here)
    assert not index.is_full((0.0, 0.0))
    index.put("a", (0.0, 0.0))
    assert not index.is_full(here)
    boundless = open_space(Grid(3, 3), Limits())
    for number in range(100):
        boundless.put(str(number), here)
    assert not boundless.is_full(here)


def test_negative_zero_is_the_first_cell() -> None:
    index = open_space(Grid(3, 3), Limits())
    assert math.copysign(1.0, index.check((-0.0, -0.0))[0]) == 1.0
