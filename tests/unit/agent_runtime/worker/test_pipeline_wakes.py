"""Agents that wake at times, on a fake world with a clock: turns, and what the world keeps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import EventType

from agent_runtime.model.errors import LaunchError
from agent_runtime.turns.presence import Chosen, Decision
from tests.unit.agent_runtime.clocked import BOOK, TIMER, clocked, look, settle, sleepers
from tests.unit.agent_runtime.fake_world import FakeWorld
from tests.unit.agent_runtime.players import Sleeper, Waiting
from tests.unit.agent_runtime.stage import PLAYERS, make_launch, set_stage, wait_until


async def test_agents_wake_when_they_asked_to_and_the_world_keeps_what_they_want_next(tmp_path: Path) -> None:
    world = clocked()
    async with set_stage(tmp_path, sleepers(tmp_path, ["hourly-1", "once-1"]), world) as stage:
        part = stage.pipeline.parts["g.0"]
        await settle(part)
        assert world.timers == {TIMER: 100}
        world.advance(99)
        world.advance(100)
        await stage.wait_turns(2)
        await settle(part)
        assert world.timers == {TIMER: 160}
        world.advance(300)
        await stage.wait_turns(5)
        await settle(part)
        assert world.timers == {TIMER: 340}
        assert look(part).consumed_revision >= world.emitted[-1][0]
    assert Sleeper.woken == [
        ("hourly-1", 100, ("",), None),
        ("once-1", 100, ("",), None),
        ("hourly-1", 160, ("",), None),
        ("hourly-1", 220, ("",), None),
        ("hourly-1", 280, ("",), None),
    ]
    assert world.entries[BOOK, "hourly-1"] == {"wakes": [[340]], "woke_ns": 280}
    assert world.entries[BOOK, "once-1"] == {"wakes": [], "woke_ns": 100}
    assert world.entries["/game", "hourly-1"] == 280
    rows = sorted((row["agent"], row["turn"], row["sim_time_ns"], row["status"]) for row in stage.read("turns"))
    assert rows == [("hourly-1", turn, 40 + 60 * turn, "ok") for turn in (1, 2, 3, 4)] + [("once-1", 1, 100, "ok")]
    # One op a turn: what was done, what is remembered, and when the agent wakes again.
    assert [[path for path, _, _ in writes] for _, _, writes in world.transactions] == [
        ["/game", "/runtime/runs/r/agents", BOOK]
    ] * 5


async def test_a_calendar_of_several_wakes(tmp_path: Path) -> None:
    world = clocked()
    async with set_stage(tmp_path, sleepers(tmp_path, ["planner-1"]), world) as stage:
        await settle(stage.pipeline.parts["g.0"])
        world.advance(10_000)
        await stage.wait_turns(3)
    assert [woken[1:] for woken in Sleeper.woken] == [(100, ("",), None), (300, ("c",), None), (500, ("a", "b"), None)]
    kept = [writes[-1][2]["wakes"] for _, _, writes in world.transactions]
    both = [[500, "a"], [500, "b", {"do": "b"}]]
    assert kept == [[[300, "c"], *both], both, []]


async def test_a_turn_that_fails_keeps_what_it_had_asked_for_and_the_past_is_refused(tmp_path: Path) -> None:
    world = clocked()
    async with set_stage(tmp_path, sleepers(tmp_path, ["fails-1", "past-1"]), world) as stage:
        await settle(stage.pipeline.parts["g.0"])
        world.advance(200)
        await stage.wait_turns(3)
    rows = {(row["agent"], row["turn"]): (row["status"], row["reason"]) for row in stage.read("turns")}
    assert rows["fails-1", 1][0] == rows["fails-1", 2][0] == "error"
    status, reason = rows["past-1", 1]
    assert status == "error" and "a wake lies behind that" in reason
    assert world.entries[BOOK, "past-1"] == {"wakes": [], "woke_ns": 100}


async def test_a_group_without_a_clock_wakes_nobody_at_a_time(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, f"{PLAYERS}:Sleeper", ["hourly-1"])
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round()
        await stage.wait_turns(1)
    (row,) = stage.read("turns")
    assert row["status"] == "error" and "what woke the agent has no time" in row["reason"]


async def test_a_group_whose_clock_is_not_there_is_not_hosted(tmp_path: Path) -> None:
    world = FakeWorld()
    with pytest.raises(LaunchError, match=r"groups\.g\.clock"):
        async with set_stage(tmp_path, sleepers(tmp_path, ["hourly-1"]), world):
            pass


async def test_timers_of_runtimes_wake_nobody_by_a_rule(tmp_path: Path) -> None:
    world = clocked()
    launch = sleepers(tmp_path, ["hourly-1"], wake=[{"path": "/game"}])
    async with set_stage(tmp_path, launch, world) as stage:
        await settle(stage.pipeline.parts["g.0"])
        world.emit((EventType.TIMER_FIRED, "/game", "wakes.other:g.0", {"due_ns": 5}))
        world.emit((EventType.TIMER_FIRED, "/game", "bell", {"due_ns": 5}))
        await stage.wait_turns(1)
        world.advance(100)
        await stage.wait_turns(2)
    assert [woken[1:3] for woken in Sleeper.woken] == [(0, ()), (60, ("",))]


@pytest.mark.parametrize("agent", ["Waiting", "Daily"])
async def test_a_wake_that_meets_a_full_mailbox_has_its_turn(tmp_path: Path, agent: str) -> None:
    world = clocked()
    Waiting.gate = asyncio.Event()
    launch = sleepers(tmp_path, ["hourly-0"], agent, mailbox_max=1)
    async with set_stage(tmp_path, launch, world) as stage:
        part = stage.pipeline.parts["g.0"]
        await settle(part)
        world.hold_answers = True
        for number in (1, 2, 3):
            world.open_round(number)
        await stage.wait_turns(1)
        assert stage.statuses == {"cancelled": 1}, "the third round: one turn runs, one waits"
        world.advance(100)
        await wait_until(lambda: part.statistics().mailed == 2)
        Waiting.gate.set()
        world.release_answers()
        await stage.wait_turns(4)
        await settle(part)
        assert world.timers == {TIMER: 160}
        assert world.entries[BOOK, "hourly-0"] == {"wakes": [[160]], "woke_ns": 100}
        world.advance(160)
        await stage.wait_turns(5)
    rows = sorted((row["turn"], row["sim_time_ns"]) for row in stage.read("turns"))
    assert rows == [(1, 0), (2, 0), (3, 0), (4, 100), (5, 160)]
    assert world.entries["/game", "hourly-0"] == 160


async def test_a_timer_that_others_take_away_is_set_again(tmp_path: Path) -> None:
    """Cancelled, or gone with an environment that is made again."""
    world = clocked()
    async with set_stage(tmp_path, sleepers(tmp_path, ["hourly-1"]), world) as stage:
        await settle(stage.pipeline.parts["g.0"])
        for event in ((EventType.TIMER_CANCELLED, *TIMER, None), (EventType.ENVIRONMENT_DELETED, "/game", "", None)):
            world.timers.clear()
            world.emit(event)
            await wait_until(lambda: world.timers == {TIMER: 100})
        world.emit((EventType.TIMER_CANCELLED, "/game", "wakes.other:g.0", None))
        world.advance(100)
        await stage.wait_turns(1)
    assert [woken[:2] for woken in Sleeper.woken] == [("hourly-1", 100)]


async def test_a_routine_goes_on_while_its_agent_is_muted_or_a_person_sits_in_its_place(tmp_path: Path) -> None:
    world = clocked()
    async with set_stage(tmp_path, sleepers(tmp_path, ["muted-1", "seated-1"], "Planner"), world) as stage:
        part, presence = stage.pipeline.parts["g.0"], stage.pipeline.presence
        told: list[dict[str, Any]] = []
        presence.tell = told.append
        await settle(part)
        presence.mute("muted-1", True)
        presence.seat("seated-1", 30.0)
        world.advance(100)
        await wait_until(lambda: told)
        presence.decide("seated-1", 1, Decision(None, [Chosen("say", "/game", "seated-1", "hello")]))
        await stage.wait_turns(2)
        presence.mute("muted-1", False)
        presence.give_back("seated-1")
        await settle(part)
        world.advance(160)
        await stage.wait_turns(4)
    rows = sorted((row["agent"], row["turn"], row["sim_time_ns"], row["status"]) for row in stage.read("turns"))
    assert rows == [
        ("muted-1", 1, 100, "cancelled"),
        ("muted-1", 2, 160, "ok"),
        ("seated-1", 1, 100, "ok"),
        ("seated-1", 2, 160, "ok"),
    ]
    assert world.past["/game", "seated-1"][0].value == "hello"
