"""Rule agents that wake at times: their routines in columns, blocks that fail, and incidents."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import ErrorDetails, UnavailableError

from tests.unit.agent_runtime.clocked import BOOK, TIMER, clocked, settle, sleepers
from tests.unit.agent_runtime.fake_world import FakeEnvironment
from tests.unit.agent_runtime.players import Daily
from tests.unit.agent_runtime.stage import FakeOwner, set_stage


async def test_rule_agents_follow_their_routines_in_columns(tmp_path: Path) -> None:
    world = clocked()
    ids = ["day-0", "day-2", "once-1", "idle-0", "day-1"]
    async with set_stage(tmp_path, sleepers(tmp_path, ids, "Daily"), world) as stage:
        part = stage.pipeline.parts["g.0"]
        await settle(part)
        world.advance(130)
        await stage.wait_turns(5)
        await settle(part)
        assert world.timers == {TIMER: 160}
        assert Daily.asked == [(["day-0", "idle-0"], [100, 100]), (["day-1", "once-1", "day-2"], [101, 101, 102])]
        world.advance(162)
        await stage.wait_turns(9)
    assert {key: value for (path, key), value in world.entries.items() if path == "/game"} == {
        "day-0": 160.0,
        "day-1": 161.0,
        "day-2": 162.0,
        "once-1": 101.0,
    }
    assert world.entries[BOOK, "once-1"] == {"wakes": [], "woke_ns": 101}
    assert world.entries[BOOK, "idle-0"] == {"wakes": [[220]], "woke_ns": 160}
    rows = sorted((row["agent"], row["turn"], row["sim_time_ns"], row["status"]) for row in stage.read("turns"))
    assert rows[:2] == [("day-0", 1, 100, "ok"), ("day-0", 2, 160, "ok")] and len(rows) == 9
    acts = {
        (row["agent"], row["turn"]): (row["action"], row["path"], row["value_double"]) for row in stage.read("actions")
    }
    assert acts["day-2", 2] == ("act", "/game", 162.0) and ("idle-0", 1) not in acts and len(acts) == 7


async def test_a_rule_that_fails_for_one_agent_wakes_the_others(tmp_path: Path) -> None:
    world = clocked()
    async with set_stage(tmp_path, sleepers(tmp_path, ["day-0", "bad-0", "back-0"], "Daily"), world) as stage:
        await settle(stage.pipeline.parts["g.0"])
        world.advance(160)
        await stage.wait_turns(4)
        await settle(stage.pipeline.parts["g.0"])
        assert world.timers == {TIMER: 220}
    rows = {(row["agent"], row["turn"]): row["status"] for row in stage.read("turns")}
    assert rows == {("day-0", 1): "ok", ("day-0", 2): "ok", ("bad-0", 1): "error", ("back-0", 1): "error"}
    assert world.entries["/game", "day-0"] == 160.0


async def test_who_is_muted_does_nothing_and_goes_on_with_its_routine(tmp_path: Path) -> None:
    world = clocked()
    async with set_stage(tmp_path, sleepers(tmp_path, ["day-0"], "Daily"), world) as stage:
        await settle(stage.pipeline.parts["g.0"])
        stage.pipeline.presence.mute("day-0", True)
        world.advance(100)
        await stage.wait_turns(1)
        stage.pipeline.presence.mute("day-0", False)
        world.advance(160)
        await stage.wait_turns(2)
    assert sorted(row["status"] for row in stage.read("turns")) == ["cancelled", "ok"]
    assert world.entries["/game", "day-0"] == 160.0


@pytest.mark.parametrize("broken", [(0,), (1,), (0, 1)], ids=["the book", "what they do", "the book twice"])
async def test_an_incident_of_a_pack_ends_its_turns_and_not_its_routines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: tuple[int, ...]
) -> None:
    world = clocked()
    submit, calls = world.frames.submit_block, itertools.count()

    async def submit_or_break(*arguments: Any, **more: Any) -> Any:
        if next(calls) in broken:
            raise RuntimeError("no frame today")
        return await submit(*arguments, **more)

    monkeypatch.setattr(world.frames, "submit_block", submit_or_break)
    async with set_stage(tmp_path, sleepers(tmp_path, ["day-0", "once-0"], "Daily"), world) as stage:
        part = stage.pipeline.parts["g.0"]
        await settle(part)
        world.advance(100)
        await stage.wait_turns(2)
        await settle(part)
        assert stage.statuses == {"error": 2}
        assert world.timers == {TIMER: 160}
        kept = {key: value for (path, key), value in world.entries.items() if path == BOOK}
        assert kept == (
            {}
            if broken == (0, 1)
            else {"day-0": {"wakes": [[160]], "woke_ns": 100}, "once-0": {"wakes": [], "woke_ns": 100}}
        )
        world.advance(160)
        await stage.wait_turns(3)
    assert world.entries["/game", "day-0"] == 160.0
    rows = {(row["agent"], row["turn"]): row["reason"] for row in stage.read("turns")}
    assert rows["day-0", 1].startswith("incident ") and not rows["day-0", 2]


@pytest.mark.parametrize("is_answer", [False, True], ids=["not sent", "not answered"])
async def test_of_two_blocks_the_one_that_was_done_is_told_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_answer: bool
) -> None:
    """Whole numbers leave before the others; whoever did nothing has not failed."""
    world = clocked()
    submit, calls = world.frames.submit_block, itertools.count()

    async def submit_or_break(*arguments: Any, **more: Any) -> Any:
        if next(calls) != 2:
            return await submit(*arguments, **more)
        if not is_answer:
            raise RuntimeError("no frame today")
        lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        lost.set_exception(UnavailableError(ErrorDetails(message="nobody knows")))
        return lost

    monkeypatch.setattr(world.frames, "submit_block", submit_or_break)
    launch = sleepers(tmp_path, ["day-0", "whole-0", "idle-0"], "Daily")
    async with set_stage(tmp_path, launch, world) as stage:
        part = stage.pipeline.parts["g.0"]
        await settle(part)
        world.advance(100)
        await stage.wait_turns(3)
        await settle(part)
        assert world.timers == {TIMER: 160}
    rows = {row["agent"]: row["status"] for row in stage.read("turns")}
    assert rows == {"day-0": "error", "whole-0": "ok", "idle-0": "ok"}
    assert [(row["agent"], row["value_double"]) for row in stage.read("actions")] == [("whole-0", 100)]
    assert {key: value for (path, key), value in world.entries.items() if path == BOOK} == {
        key: {"wakes": [[160]], "woke_ns": 100} for key in ("day-0", "whole-0", "idle-0")
    }


async def test_an_incident_where_they_act_is_kept_as_what_they_want_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next owner wakes whom this one would have."""
    world = clocked()
    owner = FakeOwner(world)
    launch = sleepers(tmp_path, ["day-0"], "Daily")

    async def break_off(self: FakeEnvironment) -> None:
        raise RuntimeError("nobody knows what is there")

    async with set_stage(tmp_path / "first", launch, world, owner) as stage:
        await settle(stage.pipeline.parts["g.0"])
        with monkeypatch.context() as patch:
            patch.setattr(FakeEnvironment, "describe", break_off)
            world.advance(100)
            await stage.wait_turns(1)
            await settle(stage.pipeline.parts["g.0"])
        assert stage.statuses == {"error": 1}
        assert world.entries[BOOK, "day-0"] == {"wakes": [[160]], "woke_ns": 100}
    async with set_stage(tmp_path / "second", launch, world, owner, source="w2") as stage:
        await settle(stage.pipeline.parts["g.0"])
        world.advance(160)
        await stage.wait_turns(1)
    assert [(row["turn"], row["sim_time_ns"]) for row in stage.read("turns")] == [(2, 160)]
