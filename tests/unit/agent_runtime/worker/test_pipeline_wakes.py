"""Agents that wake at times, on a fake world with a clock: turns, what the world keeps, and other owners."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import ErrorDetails, EventType, UnavailableError

from agent_runtime.model.errors import LaunchError
from agent_runtime.turns.presence import Chosen, Decision
from agent_runtime.worker.hosted_part import HostedPart
from agent_runtime.worker.part_clock import PartActivity
from tests.unit.agent_runtime.fake_world import FakeEnvironment, FakeWorld
from tests.unit.agent_runtime.players import Daily, Sleeper, Waiting
from tests.unit.agent_runtime.stage import PLAYERS, FakeOwner, make_launch, set_stage, wait_until

BOOK = "/runtime/runs/r/wakes/g.0"
TIMER = ("/game", "wakes.r:g.0")


@pytest.fixture(autouse=True)
def nobody_woken() -> None:
    Sleeper.woken.clear()
    Daily.asked.clear()


def clocked() -> FakeWorld:
    world = FakeWorld()
    world.clock_ns = 0
    return world


def sleepers(folder: Path, ids: list[str], agent: str = "Sleeper", **more: Any) -> Any:
    group = {"clock": "/game", "first_wake_ns": 100, "resumable": None, **more}
    return make_launch(folder, f"{PLAYERS}:{agent}", ids, **group)


def look(part: HostedPart) -> PartActivity:
    """What the part is about to do."""
    assert part.clock is not None
    return part.clock.activity


async def settle(part: HostedPart) -> None:
    """Until the part has nothing to do before its next wake."""
    await wait_until(lambda: not look(part).is_busy)


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
