"""The path of a turn, from the event to its record, on a fake world."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from ecumene.client import EventType

from agent_runtime.worker import farewell
from tests.unit.agent_runtime.fake_world import REPORTS, FakeWorld
from tests.unit.agent_runtime.players import Listener, Slow
from tests.unit.agent_runtime.stage import PLAYERS, FakeCursorStore, by_agent, make_launch, set_stage, wait_until


async def test_an_agent_reports_under_the_generation_that_woke_it(tmp_path: Path) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Moody", ["number-3", "number-4"])) as stage:
        stage.world.open_round(4)
        await stage.wait_turns(2)
    assert stage.world.reports() == {"number-3": 3.0, "number-4": 4.0}
    assert [generation for _, _, generation in stage.world.frames.blocks] == [4]
    turns, actions = stage.read("turns"), stage.read("actions")
    assert {row["status"] for row in turns} == {"ok"}
    assert len({row["group"] for row in (*turns, *actions)}) == 1 and turns[0]["group"]
    assert all(row["observation_revision"] == 12 and row["round"] == 4 and row["turn"] == 1 for row in turns)
    assert {(row["agent"], row["key"], row["value_double"], row["path"]) for row in actions} == {
        ("number-3", "number-3", 3.0, REPORTS),
        ("number-4", "number-4", 4.0, REPORTS),
    }
    assert sorted(row["commit_revision"] for row in actions) == [13, 14]


async def test_an_exception_in_one_agent_touches_no_other_and_does_not_disappear(tmp_path: Path) -> None:
    ids = ["number-1", "raise-1", "number-2"]
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Moody", ids)) as stage:
        stage.world.open_round()
        await stage.wait_turns(3)
    assert stage.world.reports() == {"number-1": 1.0, "number-2": 2.0, "raise-1": {"status": "error"}}
    assert by_agent(stage.read("turns")) == {"number-1": "ok", "number-2": "ok", "raise-1": "error"}
    (failed,) = (row for row in stage.read("turns") if row["agent"] == "raise-1")
    assert re.fullmatch(r"RuntimeError: no luck today \(players\.py, line \d+, in on_event\)", failed["reason"])
    assert {row["agent"] for row in stage.read("actions")} == {"number-1", "number-2"}


async def test_a_turn_that_takes_too_long_times_out_and_the_others_go_on(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, f"{PLAYERS}:Moody", ["hang-1", "number-2", "stubborn-1"], turn_timeout_s=0.05)
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round(1)
        await stage.wait_turns(3)
        stage.world.open_round(2)
        await stage.wait_turns(6)
    assert stage.statuses == {"ok": 2, "timeout": 4}
    assert stage.world.reports()["hang-1"] == {"status": "timeout"}


@pytest.mark.parametrize("mood", ["nan-1", "nowhere-1"])
async def test_an_impossible_action_is_refused_before_anything_is_sent(tmp_path: Path, mood: str) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Moody", [mood])) as stage:
        stage.world.open_round()
        await stage.wait_turns(1)
    assert stage.statuses == {"error": 1}
    assert stage.world.reports() == {mood: {"status": "error"}}


async def test_a_failed_turn_falls_back_when_its_agent_can(tmp_path: Path) -> None:
    ids = ["raise-1", "nowhere-1", "nan-1"]
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:FallsBack", ids)) as stage:
        stage.world.open_round()
        await stage.wait_turns(3)
    assert stage.statuses == {"fallback": 3}
    assert stage.world.reports() == dict.fromkeys(ids, 7.0)
    reasons = {row["agent"]: row["reason"] for row in stage.read("turns")}
    assert "there is no environment /nowhere" in reasons["nowhere-1"]


async def test_an_agent_that_decides_nothing_reports_no_answer_so_that_the_gate_can_open(tmp_path: Path) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Moody", ["idle-1"])) as stage:
        stage.world.open_round()
        await stage.wait_turns(1)
    assert stage.world.reports() == {"idle-1": {"status": "ok"}}
    assert [row["reason"] for row in stage.read("turns")] == ["no report"]


async def test_several_actions_of_a_turn_are_one_transaction_of_the_agent(tmp_path: Path) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Moody", ["two-1"])) as stage:
        revision = stage.world.open_round()
        await stage.wait_turns(1)
    assert stage.world.transactions == [("two-1", revision, [("/game", "two-1", "hello"), (REPORTS, "two-1", 2.0)])]
    assert [(row["seq"], row["action"]) for row in stage.read("actions")] == [(0, "say"), (1, "report")]


async def test_a_late_report_is_recorded_as_late_and_took_no_effect(tmp_path: Path) -> None:
    world = FakeWorld()
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Slow", ["a"]), world) as stage:
        Slow.reset()
        world.open_round(1)
        await wait_until(lambda: Slow.seen["a"])
        world.collecting[REPORTS] = 2
        Slow.gate.set()
        await stage.wait_turns(1)
    (turn,) = stage.read("turns")
    assert (turn["status"], turn["reason"]) == ("timeout", "late: the gate had closed")
    assert [row["commit_revision"] for row in stage.read("actions")] == [None]


async def test_the_stored_outcome_of_an_earlier_turn_is_adopted_and_the_new_answer_dropped(tmp_path: Path) -> None:
    world = FakeWorld()
    revision = 20
    for agent, value in (("number-1", 99.0), ("number-2", {"status": "refused"})):
        world.apply(agent, revision, 1, REPORTS, agent, value)
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Moody", ["number-1", "number-2"]), world) as stage:
        world.open_round(1, revision=revision)
        await stage.wait_turns(2)
    assert world.reports() == {"number-1": 99.0, "number-2": {"status": "refused"}}
    assert by_agent(stage.read("turns")) == {"number-1": "ok", "number-2": "refused"}
    assert {row["reason"] for row in stage.read("turns")} == {"adopted: an earlier answer to this event stands"}
    assert [(row["agent"], row["value_double"]) for row in stage.read("actions")] == [("number-1", 99.0)]


async def test_an_agent_takes_one_turn_at_a_time_in_the_order_of_revisions(tmp_path: Path) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Slow", ["a", "b"])) as stage:
        Slow.reset()
        revisions = [stage.world.open_round(number) for number in (1, 2, 3)]
        await wait_until(lambda: Slow.seen["a"] and Slow.seen["b"])
        assert (len(Slow.seen["a"]), len(Slow.seen["b"])) == (1, 1)
        Slow.gate.set()
        await stage.wait_turns(6)
    assert Slow.most == 1
    assert Slow.seen == {"a": revisions, "b": revisions}
    assert sorted(row["turn"] for row in stage.read("turns") if row["agent"] == "a") == [1, 2, 3]


async def test_a_full_mailbox_ends_what_comes_as_a_cancelled_turn(tmp_path: Path) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Slow", ["a"], mailbox_max=2)) as stage:
        Slow.reset()
        for number in (1, 2, 3, 4, 5):
            stage.world.open_round(number)
        await stage.wait_turns(2)
        assert stage.statuses == {"cancelled": 2}
        stage.world.collecting[REPORTS] = 1
        Slow.gate.set()
        await stage.wait_turns(5)
    assert len(Slow.seen["a"]) == 3
    numbers = [row["turn"] for row in stage.read("turns")]
    assert len(set(numbers)) == len(numbers) == 5


async def test_all_events_of_one_revision_form_one_turn(tmp_path: Path) -> None:
    Listener.heard.clear()
    wake = [{"path": "/game", "key": "all"}, {"path": "/mail", "key": "{agent}"}]
    launch = make_launch(tmp_path, f"{PLAYERS}:Listener", ["ann", "bob"], wake=wake)
    async with set_stage(tmp_path, launch) as stage:
        stage.world.emit(
            (EventType.ENTRY_SET, "/mail", "bob", 1),
            (EventType.ENTRY_SET, "/game", "all", 2),
            (EventType.ENTRY_SET, "/mail", "stranger", 3),
        )
        await stage.wait_turns(2)
    assert sorted(Listener.heard) == [("ann", ["all"]), ("bob", ["bob", "all"])]
    assert stage.statuses == {"ok": 2}


async def test_a_stop_cancels_what_thinks_and_tells_the_world_nothing_of_it(tmp_path: Path) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Moody", ["hang-1", "number-2"])) as stage:
        stage.world.open_round()
        await stage.wait_turns(1)
    assert by_agent(stage.read("turns")) == {"hang-1": "cancelled", "number-2": "ok"}
    assert stage.world.reports() == {"number-2": 2.0}


async def test_a_stop_lets_what_commits_finish(tmp_path: Path) -> None:
    world = FakeWorld()
    world.hold_answers = True
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Moody", ["number-2"]), world) as stage:
        world.open_round()
        await wait_until(lambda: world.held)
        world.release_answers()
    assert stage.statuses == {"ok": 1}


@pytest.mark.parametrize(("agent", "ids"), [("Moody", ["number-1", "raise-2"]), ("Rule", ["n-1", "n-2", "nan"])])
async def test_a_stop_that_the_world_does_not_answer_still_ends_every_turn(
    tmp_path: Path, agent: str, ids: list[str]
) -> None:
    world = FakeWorld()
    world.hold_answers = True
    launch = make_launch(tmp_path, f"{PLAYERS}:{agent}", ids)
    quick = launch.model_copy(update={"worker": launch.worker.model_copy(update={"stop_timeout_s": 0.05})})
    async with set_stage(tmp_path, quick, world) as stage:
        world.open_round()
        await wait_until(lambda: len(world.reports()) == len(ids))
    assert stage.statuses == {"cancelled": len(ids)}
    assert {row["reason"] for row in stage.read("turns")} == {"stopped before the world answered"}


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_stop_waits_once_for_a_world_that_takes_nothing_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    async def never(*given: object) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(farewell, "AWAY_S_MAX", 0.2)
    launch = make_launch(tmp_path, f"{PLAYERS}:Moody", ["number-1", "number-2"])
    stop_s = 0.5
    launch = launch.model_copy(update={"worker": launch.worker.model_copy(update={"stop_timeout_s": stop_s})})
    async with set_stage(tmp_path, launch) as stage:
        stage.world.hold_answers = True
        stage.world.open_round()
        await wait_until(lambda: stage.world.held)
        stage.world.is_there = is_there
        for place, name in ((stage.owner, "close"), (stage.pipeline.models, "give_back"), (FakeCursorStore, "write")):
            monkeypatch.setattr(place, name, never)
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        assert not await stage.pipeline.stop(), "the world has not taken everything"
        took_s = loop.time() - begun_s
        assert stop_s <= took_s < 3 * stop_s if is_there else took_s < stop_s, "it waits for four things"
