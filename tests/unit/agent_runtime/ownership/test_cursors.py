"""Cursors as the world keeps them: one number where all agents have had as many turns, packed pieces where not."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from ecumene.client import FencedError, World

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
