"""Turns of rule agents in columns: records, failures, mailboxes and stops, each agent its own."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

from tests.unit.agent_runtime.fake_world import REPORTS, FakeWorld
from tests.unit.agent_runtime.stage import PLAYERS, by_agent, make_launch, set_stage, wait_until


async def test_rule_agents_in_columns_have_a_turn_a_record_and_a_producer_each(tmp_path: Path) -> None:
    ids = [f"n-{number}" for number in range(2500)]
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Rule", ids)) as stage:
        for number in (1, 2):
            stage.world.open_round(number)
            await stage.wait_turns(2500 * number)
    assert stage.world.reports() == {name: float(name.split("-")[1]) for name in ids}
    turns, actions = stage.read("turns"), stage.read("actions")
    assert {(row["agent"], row["turn"]) for row in turns} == {(name, turn) for name in ids for turn in (1, 2)}
    assert len(turns) == len(actions) == 5000
    assert max(len(keys) for keys, _, _ in stage.world.frames.blocks) == 1000
    assert len({row["commit_revision"] for row in actions}) == 5000
    assert stage.world.outcomes.keys() == set(ids)


async def test_a_rule_that_fails_for_one_agent_fails_for_that_one_alone(tmp_path: Path) -> None:
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Rule", ["n-1", "bad", "nan", "n-2"])) as stage:
        stage.world.open_round()
        await stage.wait_turns(4)
    assert stage.world.reports() == {
        "n-1": 1.0,
        "n-2": 2.0,
        "bad": {"status": "error"},
        "nan": {"status": "error"},
    }
    assert by_agent(stage.read("turns")) == {"n-1": "ok", "n-2": "ok", "bad": "error", "nan": "error"}
    assert all(math.isfinite(row["value_double"]) for row in stage.read("actions"))


async def test_columns_record_late_and_adopted_turns_as_single_turns_do(tmp_path: Path) -> None:
    world = FakeWorld()
    world.apply("n-1", 20, 1, REPORTS, "n-1", 99.0)
    world.apply("n-2", 20, 5, REPORTS, "n-2", 1.0)  # refused then: GATE_CLOSED is kept
    world.apply("n-3", 21, 1, REPORTS, "n-3", 5.0)  # a later event was answered
    async with set_stage(
        tmp_path, make_launch(tmp_path, f"{PLAYERS}:Rule", ["n-0", "n-1", "n-2", "n-3"]), world
    ) as stage:
        world.open_round(1, revision=20)
        await stage.wait_turns(4)
    assert by_agent(stage.read("turns")) == {"n-0": "ok", "n-1": "ok", "n-2": "timeout", "n-3": "cancelled"}
    values = {row["agent"]: (row["value_double"], row["commit_revision"] is None) for row in stage.read("actions")}
    assert values == {"n-0": (0.0, False), "n-1": (99.0, False), "n-2": (2.0, True), "n-3": (3.0, True)}


async def test_columns_take_one_turn_at_a_time_and_keep_what_comes_meanwhile(tmp_path: Path) -> None:
    world = FakeWorld()
    world.hold_answers = True
    launch = make_launch(tmp_path, f"{PLAYERS}:Rule", ["n-1", "n-2"], mailbox_max=1)
    async with set_stage(tmp_path, launch, world) as stage:
        first = world.open_round(1)
        await wait_until(lambda: world.held)
        second = world.open_round(2)
        world.open_round(3)
        await stage.wait_turns(2)
        assert stage.statuses == {"cancelled": 2}
        assert len(world.frames.blocks) == 1
        world.collecting[REPORTS] = 2
        world.release_answers()
        await stage.wait_turns(6)
    rows = sorted(
        (row["agent"], row["turn"], row["observation_revision"], row["status"]) for row in stage.read("turns")
    )
    assert [row for row in rows if row[0] == "n-1"] == [
        ("n-1", 1, first, "ok"),
        ("n-1", 2, second + 1, "cancelled"),
        ("n-1", 3, second, "ok"),
    ]


async def test_rule_agents_fall_back_one_by_one(tmp_path: Path) -> None:
    ids = ["n-1", "bad", "nan", "n-2", "x-y"]
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:RuleFallsBack", ids)) as stage:
        stage.world.open_round()
        await stage.wait_turns(5)
    failed = {"status": "error"}
    assert stage.world.reports() == {"n-1": 1.0, "n-2": 2.0, "bad": 3.5, "nan": failed, "x-y": failed}
    rows = {row["agent"]: row for row in stage.read("turns")}
    assert {agent: row["status"] for agent, row in rows.items()} == {
        "n-1": "ok", "n-2": "ok", "bad": "fallback", "nan": "error", "x-y": "error"
    }  # fmt: skip
    assert "bad agent" in rows["bad"]["reason"] and "'no number' is no finite number" in rows["nan"]["reason"]
    assert {(row["agent"], row["value_double"]) for row in stage.read("actions")} == {
        ("n-1", 1.0), ("n-2", 2.0), ("bad", 3.5)
    }  # fmt: skip


async def test_thinking_time_passes_before_an_answer(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, f"{PLAYERS}:Rule", ["n-1", "n-2"], thinking={"kind": "fixed", "ms": 120})
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round()
        await stage.wait_turns(2)
    assert all(120 <= row["latency_ms"] < 2000 for row in stage.read("turns"))


async def test_a_stop_ends_thinking_columns_as_cancelled_and_unsent(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, f"{PLAYERS}:Rule", ["n-1", "n-2"], thinking={"kind": "uniform", "high_ms": 60_000})
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round()
        await wait_until(lambda: stage.pipeline.statistics()["g.0"].running == 2)
    assert stage.statuses == {"cancelled": 2}
    assert stage.world.reports() == {}


async def test_a_stop_ends_columns_that_wait_for_room_in_the_session(tmp_path: Path) -> None:
    async def never(*arguments: Any, **options: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    ids = [f"n-{number}" for number in range(2500)]
    world = FakeWorld()
    world.frames.submit_block = never  # type: ignore[method-assign]
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Rule", ids), world) as stage:
        world.open_round()
        await wait_until(lambda: stage.pipeline.parts["g.0"].outbox.frames)
    assert stage.statuses == {"cancelled": 2500}
    assert len({row["agent"] for row in stage.read("turns")}) == 2500
