"""Cursors as the world keeps them: one number where all agents have had as many turns, packed pieces where not."""

from __future__ import annotations

import random
from typing import Any, cast

import numpy as np
import pytest
from ecumene.client import FencedError, UnavailableError, World

from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part
from agent_runtime.ownership.cursors import PIECE_ROWS, Cursor, CursorFile
from tests.unit.agent_runtime.fake_world import FakeWorld

PATH = "/runtime/runs/r/cursors"


def make_part(agents: int) -> Part:
    return Part(group="g", number=3, first=10, end=10 + agents)


def open_file(world: FakeWorld, part: Part) -> CursorFile:
    return CursorFile(cast(World, world), PATH, part)


def cursor(through: int, turns: Any) -> Cursor:
    return Cursor(through, np.array(turns, dtype=np.int32))


async def test_even_turns_are_one_number(seed: int) -> None:
    world, part = FakeWorld(), make_part(200_000)
    await open_file(world, part).write(cursor(77, [5] * 200_000))
    assert {key: value for (path, key), value in world.entries.items() if path == PATH} == {
        "g.3": {"through": 77, "rows": [10, 200_010], "turns": 5}
    }
    found = await open_file(world, part).read()
    assert (found.through, len(found.turns), set(found.turns.tolist())) == (77, 200_000, {5})


async def test_uneven_turns_come_back_as_they_were(seed: int) -> None:
    chance = np.random.default_rng(seed)
    world, part = FakeWorld(), make_part(PIECE_ROWS + 500)
    turns = chance.integers(0, 2**31 - 1, len(part), dtype=np.int32)
    file = open_file(world, part)
    for through in (5, 6, 7):
        turns[through] += 1
        await file.write(cursor(through, turns))
        found = await open_file(world, part).read()
        assert found.through == through
        np.testing.assert_array_equal(found.turns, turns)
    assert all(len(value) < 1024 * 1024 for value in world.entries.values() if isinstance(value, bytes))


async def test_whoever_dies_between_pieces_and_cursor_leaves_the_last_one_whole() -> None:
    world, part = FakeWorld(), make_part(3)
    file = open_file(world, part)
    await file.write(cursor(5, [1, 2, 3]))
    kept = world.entries[PATH, "g.3"]
    await file.write(cursor(6, [2, 2, 4]))
    world.entries[PATH, "g.3"] = kept
    found = await open_file(world, part).read()
    assert (found.through, found.turns.tolist()) == (5, [1, 2, 3])
    # A new owner goes on in the other slot.
    again = open_file(world, part)
    await again.read()
    await again.write(cursor(9, [3, 3, 5]))
    assert (await open_file(world, part).read()).turns.tolist() == [3, 3, 5]


class Flaky(FakeWorld):
    """Writes that fail, before or after they take effect."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self.fails = 0.0

    def store(self, path: str, key: str, value: Any, *rest: Any) -> None:
        fails = self._chance.random() < self.fails
        if not fails or self._chance.random() < 0.5:
            super().store(path, key, value, *rest)
        if fails:
            raise UnavailableError()


async def test_whatever_fails_the_kept_cursor_finds_the_turns_that_belong_to_it(seed: int) -> None:
    """Any course of writes that fail, as a whole or in their answer alone, and of new owners."""
    chance = random.Random(seed)
    for _ in range(200):
        world, part = Flaky(chance), make_part(PIECE_ROWS + 2)
        file = open_file(world, part)
        turns = np.zeros(len(part), dtype=np.int32)
        tried: dict[int, Any] = {0: turns.copy()}
        await file.write(Cursor(0, tried[0]))  # as it is written when the part is taken first
        for through in range(1, 12):
            turns[chance.randrange(2) * PIECE_ROWS + chance.randrange(2)] += chance.randrange(2)
            if chance.random() < 0.1:
                turns[:] = turns.max()
            tried[through] = turns.copy()
            world.fails = chance.choice([0.0, 0.6])
            try:
                await file.write(Cursor(through, turns.copy()))
            except UnavailableError:
                pass
            world.fails = 0.0
            found = await open_file(world, part).read()
            np.testing.assert_array_equal(found.turns, tried[found.through])
            if chance.random() < 0.1:
                file = open_file(world, part)
                await file.read()


@pytest.mark.parametrize(
    "changed",
    [
        {"through": "x"},
        {"turns": "x"},
        {"turns": 2**40},
        {"turns": None},
        {"turns": None, "slot": 0, "pieces": 10**9},
        {"turns": None, "slot": 7},
        {"turns": {}},
    ],
)
async def test_what_is_no_cursor_is_told_as_such(changed: dict[str, Any]) -> None:
    world, part = FakeWorld(), make_part(3)
    await open_file(world, part).write(cursor(5, [1, 1, 1]))
    world.entries[PATH, "g.3"] |= changed
    world.entries[PATH, "g.3.0.0"] = b"nothing"
    with pytest.raises(LaunchError, match=r"parts\.g\.3: its cursor"):
        await open_file(world, part).read()


async def test_a_part_of_other_rows_is_not_this_one() -> None:
    world = FakeWorld()
    await open_file(world, make_part(3)).write(cursor(5, [1, 1, 1]))
    with pytest.raises(LaunchError, match=r"not of rows \[10, 14\]"):
        await open_file(world, make_part(4)).read()


async def test_nothing_is_kept_behind_a_fallen_fence() -> None:
    world = FakeWorld()
    world.fence_holds = False
    with pytest.raises(FencedError):
        await open_file(world, make_part(2)).write(cursor(5, [1, 2]))
    assert world.entries == {}
