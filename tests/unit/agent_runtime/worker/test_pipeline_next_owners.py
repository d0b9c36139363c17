"""Agents that wake at times, and whose part another worker takes over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.agent_runtime.clocked import TIMER, clocked, settle, sleepers
from tests.unit.agent_runtime.players import Daily, Sleeper
from tests.unit.agent_runtime.stage import FakeOwner, set_stage


@pytest.mark.parametrize("agent", ["Sleeper", "Daily"])
async def test_a_new_owner_wakes_whoever_is_still_to_be_woken(tmp_path: Path, agent: str) -> None:
    world = clocked()
    owner = FakeOwner(world)
    launch = sleepers(tmp_path, ["hourly-0", "once-0"], agent)
    for number, to_ns, turns in ((1, 100, 2), (2, 220, 2), (3, 280, 1)):
        async with set_stage(tmp_path, launch, world, owner, source=f"w{number}") as stage:
            await settle(stage.pipeline.parts["g.0"])
            world.advance(to_ns)
            await stage.wait_turns(turns)
    rows = sorted((row["agent"], row["turn"], row["sim_time_ns"]) for row in stage.read("turns"))
    assert rows == [("hourly-0", turn, 40 + 60 * turn) for turn in (1, 2, 3, 4)] + [("once-0", 1, 100)]


@pytest.mark.parametrize("agent", ["Sleeper", "Daily"])
async def test_wakes_that_had_their_turn_are_recorded_as_they_were_and_not_taken_again(
    tmp_path: Path, agent: str
) -> None:
    """The last owner died behind its cursor."""
    world = clocked()
    owner = FakeOwner(world)
    launch = sleepers(tmp_path, ["hourly-0", "once-0"], agent)
    async with set_stage(tmp_path / "first", launch, world, owner) as stage:
        await settle(stage.pipeline.parts["g.0"])
        kept = owner.cursors["g.0"]
        world.advance(170)
        await stage.wait_turns(3)
        await settle(stage.pipeline.parts["g.0"])
    first = sorted((row["agent"], row["turn"], row["sim_time_ns"], row["status"]) for row in stage.read("turns"))
    owner.cursors["g.0"] = kept
    writes, asked = dict(world.past), len(Sleeper.woken) + len(Daily.asked)
    async with set_stage(tmp_path / "second", launch, world, owner) as stage:
        await stage.wait_turns(3)
        await settle(stage.pipeline.parts["g.0"])
        assert len(Sleeper.woken) + len(Daily.asked) == asked
        assert {place: len(past) for place, past in world.past.items() if place[0] == "/game"} == {
            place: len(past) for place, past in writes.items() if place[0] == "/game"
        }
        assert world.timers == {TIMER: 220}
        world.advance(220)
        await stage.wait_turns(4)
    again = sorted((row["agent"], row["turn"], row["sim_time_ns"], row["status"]) for row in stage.read("turns"))
    assert [row for row in again if row[:2] != ("hourly-0", 3)] == first
    assert ("hourly-0", 3, 220, "ok") in again


async def test_a_routine_that_was_begun_and_not_done_is_done_by_the_next_owner(tmp_path: Path) -> None:
    """Of the two blocks of a pack, only the first had its effect."""
    world = clocked()
    owner = FakeOwner(world)
    launch = sleepers(tmp_path, ["day-0", "day-1"], "Daily")
    async with set_stage(tmp_path / "first", launch, world, owner) as stage:
        await settle(stage.pipeline.parts["g.0"])
        kept = owner.cursors["g.0"]
        world.advance(101)
        await stage.wait_turns(2)
        await settle(stage.pipeline.parts["g.0"])
    owner.cursors["g.0"] = kept
    for key in ("day-0", "day-1"):
        del world.entries["/game", key], world.past["/game", key], world.outcomes[key]
    async with set_stage(tmp_path / "second", launch, world, owner) as stage:
        await stage.wait_turns(2)
        await settle(stage.pipeline.parts["g.0"])
        assert (world.entries["/game", "day-0"], world.entries["/game", "day-1"]) == (100.0, 101.0)
        assert world.timers == {TIMER: 160}
    assert sorted((row["agent"], row["sim_time_ns"]) for row in stage.read("turns")) == [("day-0", 100), ("day-1", 101)]
