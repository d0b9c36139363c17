"""Parts that change hands, on a fake world: memories in the op of the turn, turns that are adopted, parts lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ecumene.client import EventType, UnavailableError

from agent_runtime.gateways.opened_models import OpenedModels
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.parts import Part
from agent_runtime.ownership.cursors import Cursor
from agent_runtime.recording.errors import RecordingFailedError
from agent_runtime.worker.hosted_part import HostedPart
from agent_runtime.worker.pipeline import Pipeline
from tests.unit.agent_runtime.fake_world import REPORTS, FakeWorld
from tests.unit.agent_runtime.players import Diarist
from tests.unit.agent_runtime.stage import PLAYERS, FakeOwner, by_agent, make_launch, set_stage, wait_until

AGENTS = "/runtime/runs/r/agents"
PART = Part(group="g", number=0, first=0, end=2)


@pytest.fixture(autouse=True)
def nobody_asked() -> None:
    Diarist.asked.clear()


def diary(folder: Path, ids: list[str], **more: Any) -> Any:
    return make_launch(folder, f"{PLAYERS}:Diarist", ids, resumable=True, **more)


async def test_what_an_agent_remembers_is_written_in_the_op_of_its_turn(tmp_path: Path) -> None:
    async with set_stage(tmp_path, diary(tmp_path, ["ann"], parameters={"acts": True})) as stage:
        revision = stage.world.open_round()
        await stage.wait_turns(1)
    ((producer, seq, writes),) = stage.world.transactions
    assert (producer, seq) == ("ann", revision)
    assert [(path, key) for path, key, _ in writes] == [("/game", "ann"), (REPORTS, "ann"), (AGENTS, "ann")]
    state = writes[-1][2]
    assert (state["turn"], state["revision"], state["status"]) == (1, revision, "ok")
    assert state["memory"]["window"] == [str(revision)]
    assert [action[:3] for action in state["actions"]] == [["say", "/game", "ann"], ["report", REPORTS, "ann"]]


async def test_a_late_turn_keeps_its_memory_and_has_no_other_effect(tmp_path: Path) -> None:
    world = FakeWorld()
    async with set_stage(tmp_path, diary(tmp_path, ["ann"]), world) as stage:
        revision = world.open_round(1)
        world.collecting[REPORTS] = 2
        await stage.wait_turns(1)
    assert world.reports() == {}
    state = world.entries[AGENTS, "ann"]
    assert (state["status"], state["reason"], state["memory"]["window"]) == (
        "timeout",
        "late: the gate had closed",
        [str(revision)],
    )
    (turn,) = stage.read("turns")
    assert (turn["status"], [row["commit_revision"] for row in stage.read("actions")]) == ("timeout", [None])


async def test_a_new_owner_goes_on_with_the_memory_and_the_number_of_turns(tmp_path: Path) -> None:
    world = FakeWorld()
    owner = FakeOwner(world)
    launch = diary(tmp_path, ["ann", "bob"])
    for number in (1, 2, 3):
        async with set_stage(tmp_path, launch, world, owner, source=f"w{number}") as stage:
            world.open_round(number)
            await stage.wait_turns(2)
    assert world.reports() == {"ann": 3.0, "bob": 3.0}
    assert sorted((row["agent"], row["turn"]) for row in stage.read("turns")) == [
        (agent, turn) for agent in ("ann", "bob") for turn in (1, 2, 3)
    ]
    assert owner.cursors["g.0"].turns.tolist() == [3, 3]


@pytest.mark.parametrize("agent", ["Diarist", "Rule"])
async def test_turns_that_were_taken_before_are_adopted_as_they_were_and_not_taken_again(
    tmp_path: Path, agent: str
) -> None:
    """The last owner died behind its cursor: of two agents and two rounds, three turns stand in the log."""
    world = FakeWorld()
    owner = FakeOwner(world)
    launch = make_launch(tmp_path, f"{PLAYERS}:{agent}", ["n-1", "n-2"], resumable=None, thinking={"ms": 50})
    async with set_stage(tmp_path / "first", launch, world, owner) as stage:
        first = world.open_round(1)
        await stage.wait_turns(2)
        stage.pipeline.parts["g.0"].cut_off()
    owner.cursors["g.0"] = Cursor.at_start(PART, first - 1)
    second = world.open_round(2)
    if agent == "Diarist":
        state = dict(world.entries[AGENTS, "n-1"]) | {"turn": 2, "revision": second, "status": "fallback"}
        world.revision += 1
        for path, value in ((REPORTS, 99.0), (AGENTS, state)):
            world.store(path, "n-1", value, "n-1", second, f"fake/{second}.0")
    else:
        world.apply("n-1", second, 2, REPORTS, "n-1", 99.0, f"fake/{second}.0")
    Diarist.asked.clear()
    sent = len(world.frames.blocks) + len(world.transactions)
    async with set_stage(tmp_path, launch, world, owner) as stage:
        await stage.wait_turns(4)
    assert len(world.frames.blocks) + len(world.transactions) == sent + 1, "one turn was left"
    assert Diarist.asked == (["n-2.2"] if agent == "Diarist" else [])
    told = {(row["agent"], row["turn"]): row["status"] for row in stage.read("turns")}
    adopted = "fallback" if agent == "Diarist" else "ok"
    assert told == {("n-1", 1): "ok", ("n-2", 1): "ok", ("n-1", 2): adopted, ("n-2", 2): "ok"}
    values = {(row["agent"], row["turn"]): row["value_double"] for row in stage.read("actions")}
    assert values["n-2", 1] == (1.0 if agent == "Diarist" else 2.0)
    assert all(row["commit_revision"] for row in stage.read("actions"))


async def test_a_turn_of_a_failed_agent_is_adopted_as_failed(tmp_path: Path) -> None:
    world = FakeWorld()
    owner = FakeOwner(world)
    launch = make_launch(tmp_path, f"{PLAYERS}:Rule", ["nan", "n-2"])
    async with set_stage(tmp_path / "first", launch, world, owner) as stage:
        first = world.open_round(1)
        await stage.wait_turns(2)
    owner.cursors["g.0"] = Cursor.at_start(PART, first - 1)
    async with set_stage(tmp_path, launch, world, owner) as stage:
        await stage.wait_turns(2)
    assert by_agent(stage.read("turns")) == {"nan": "error", "n-2": "ok"}
    assert [row["agent"] for row in stage.read("actions")] == ["n-2"]


@pytest.mark.parametrize("agent", ["Moody", "Rule", "Diarist"])
async def test_when_the_fence_has_fallen_the_part_is_lost_and_nothing_more_is_sent_or_recorded(
    tmp_path: Path, agent: str
) -> None:
    world = FakeWorld()
    launch = make_launch(tmp_path, f"{PLAYERS}:{agent}", ["number-1", "number-2"], resumable=agent == "Diarist")
    async with set_stage(tmp_path, launch, world) as stage:
        world.open_round(1)
        await stage.wait_turns(2)
        world.fence_holds = False
        world.open_round(2)
        await wait_until(lambda: stage.lost)
        world.fence_holds = True
        world.open_round(3)
        await asyncio.sleep(0.05)
        assert stage.pipeline.agents == 0
    ((part, reason),) = stage.lost
    assert (part, bool(reason)) == ("g.0", True)
    assert {row["turn"] for row in stage.read("turns")} == {1}
    assert len(stage.world.reports()) == 2


async def test_when_the_lease_is_lost_turns_end_unrecorded(tmp_path: Path) -> None:
    world = FakeWorld()
    async with set_stage(tmp_path, diary(tmp_path, ["ann"], parameters={"waits": True}), world) as stage:
        world.open_round(1)
        await wait_until(lambda: stage.pipeline.statistics()["g.0"].running)
        stage.pipeline.lose_all("lease 5 has ended")
        await wait_until(lambda: not [task for task in asyncio.all_tasks() if "turn of ann" in task.get_name()])
    assert stage.lost == [("g.0", "lease 5 has ended")]
    assert stage.read("turns") == []
    assert world.transactions == []


async def test_a_part_is_dropped_and_hosted_again_and_its_cursor_covers_what_is_on_disk(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, f"{PLAYERS}:Rule", ["n-1", "n-2"])
    async with set_stage(tmp_path, launch) as stage:
        revision = stage.world.open_round(1)
        await stage.wait_turns(2)
        assert await stage.pipeline.drop("g.0") >= revision
        assert len(stage.read("turns")) == 2
        assert (stage.pipeline.agents, stage.owner.held) == (0, set())
        with pytest.raises(LaunchError, match="does not host it"):
            await stage.pipeline.drop("g.0")
        stage.world.open_round(2)
        hosted = await stage.pipeline.host(PART)
        assert hosted.owned.cursor.turns.tolist() == [1, 1]
        await stage.wait_turns(4)
        with pytest.raises(LaunchError, match="has it already"):
            await stage.pipeline.host(PART)
    assert {(row["agent"], row["turn"]) for row in stage.read("turns")} == {
        (f"n-{n}", t) for n in (1, 2) for t in (1, 2)
    }


@pytest.mark.parametrize("fails", ["flush", "cursor"])
async def test_a_part_that_is_dropped_is_given_back_whatever_fails_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    async def fail(*_: Any) -> None:
        raise RecordingFailedError("turns", "the disk is full") if fails == "flush" else UnavailableError()

    launch = make_launch(tmp_path, f"{PLAYERS}:Rule", ["n-1", "n-2"])
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round(1)
        await stage.wait_turns(2)
        with monkeypatch.context() as patched:
            patched.setattr(*((Pipeline, "_flush_records") if fails == "flush" else (HostedPart, "save_cursor")), fail)
            with pytest.raises((RecordingFailedError, UnavailableError)):
                await stage.pipeline.drop("g.0")
        assert (stage.owner.held, stage.pipeline.agents) == (set(), 0)
        # Nothing is in the way of whoever is to have it next.
        await stage.pipeline.host(PART)


async def test_a_stop_closes_everything_although_records_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> None:
        raise RecordingFailedError("turns", "the disk is full")

    monkeypatch.setattr(Pipeline, "_flush_records", fail)
    closed: list[bool] = []

    async def close(*_: Any) -> None:
        closed.append(True)

    monkeypatch.setattr(OpenedModels, "aclose", close)
    with pytest.raises(RecordingFailedError):
        async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Rule", ["n-1"])) as stage:
            pass
    assert (stage.owner.held, closed, stage.pipeline.agents) == (set(), [True], 0)


async def test_a_part_whose_agents_cannot_be_made_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("foreign")

    launch = make_launch(tmp_path, f"{PLAYERS}:Rule", ["n-1", "n-2"])
    async with set_stage(tmp_path, launch) as stage:
        await stage.pipeline.drop("g.0")
        with monkeypatch.context() as patched:
            patched.setattr(Pipeline, "_begin", fail)
            with pytest.raises(KeyError):
                await stage.pipeline.host(PART)
        assert stage.owner.held == set()
        await stage.pipeline.host(PART)


async def test_who_is_muted_is_known_before_anybody_is_woken_and_forgotten_when_the_part_comes_again(
    tmp_path: Path,
) -> None:
    launch = make_launch(tmp_path, f"{PLAYERS}:Moody", ["number-1", "number-2"])
    async with set_stage(tmp_path, launch) as stage:
        await stage.pipeline.drop("g.0")
        stage.world.open_round(1)  # it waits for whoever hosts them next
        await stage.pipeline.host(PART, muted=["number-1"])
        await stage.wait_turns(2)
        await stage.pipeline.drop("g.0")
        stage.world.open_round(2)
        await stage.pipeline.host(PART)
        await stage.wait_turns(4)
    told = {(row["agent"], row["turn"]): row["status"] for row in stage.read("turns")}
    assert told == {
        ("number-1", 1): "cancelled",
        ("number-2", 1): "ok",
        ("number-1", 2): "ok",
        ("number-2", 2): "ok",
    }


async def test_the_cursor_stops_before_a_turn_that_has_not_ended(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, f"{PLAYERS}:Moody", ["hang-1", "number-2"])
    async with set_stage(tmp_path, launch) as stage:
        revision = stage.world.open_round(1)
        await stage.wait_turns(1)
        stage.world.emit((EventType.ENTRY_SET, "/elsewhere", "x", 1))
        await asyncio.sleep(0.01)
        assert stage.pipeline.parts["g.0"].through == revision - 1
    cursor = stage.owner.cursors["g.0"]  # further than where it began, so it was written
    assert (cursor.through, cursor.turns.tolist()) == (revision - 1, [0, 0])


async def test_agents_woken_unequally_have_their_own_numbers_after_a_takeover(tmp_path: Path) -> None:
    world = FakeWorld()
    owner = FakeOwner(world)
    wake = [{"path": "/game", "key": "round.opened"}, {"path": "/mail", "key": "{agent}"}]
    launch = make_launch(tmp_path, f"{PLAYERS}:Rule", ["n-1", "n-2"], wake=wake)
    async with set_stage(tmp_path, launch, world, owner) as stage:
        for _ in range(3):
            world.emit((EventType.ENTRY_SET, "/mail", "n-2", {"reports": REPORTS, "generation": 1}))
        world.open_round(1)
        await stage.wait_turns(5)
    np.testing.assert_array_equal(owner.cursors["g.0"].turns, [1, 4])
    async with set_stage(tmp_path, launch, world, owner, source="w2") as stage:
        world.open_round(2)
        await stage.wait_turns(2)
    assert {(row["agent"], row["turn"]) for row in stage.read("turns") if row["round"] == 2} == {("n-1", 2), ("n-2", 5)}
