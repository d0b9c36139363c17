"""Turns that ask a model: what it does gives them their status, tokens are counted, budgets end or hold them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_runtime.llm.settings import RunBudget
from tests.unit.agent_runtime.stage import PLAYERS, by_agent, make_launch, set_stage, wait_until


def scripted(**more: Any) -> dict[str, Any]:
    return {"m": {"provider": "scripted", "answers": f"{PLAYERS}:answer_number", "attempts_max": 1, **more}}


@pytest.mark.parametrize(
    ("status", "settings"),
    [
        ("ok", {}),
        ("parse_error", {"answers": f"{PLAYERS}:answer_garbage", "repairs_max": 0}),
        ("truncated", {"faults": {"truncated": 1.0}, "repairs_max": 0}),
        ("refused", {"faults": {"refused": 1.0}}),
        ("timeout", {"faults": {"timeout": 1.0}, "timeout_s": 0.05}),
        ("error", {"faults": {"unavailable": 1.0}}),
        ("budget", {"tokens_max": 0}),
    ],
)
async def test_what_the_model_does_gives_the_turn_its_status(
    tmp_path: Path, status: str, settings: dict[str, Any]
) -> None:
    launch = make_launch(tmp_path, f"{PLAYERS}:Asker", ["a"], models=scripted(**settings))
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round()
        await stage.wait_turns(1)
    (turn,) = stage.read("turns")
    assert turn["status"] == status
    assert turn["model"] == "scripted"
    assert stage.world.reports() == {"a": 12.5 if status == "ok" else {"status": status}}
    assert turn["attempts"] == (0 if status == "budget" else 1)
    calls = stage.read("calls")
    assert [call["status"] for call in calls] == ([] if status == "budget" else [status])
    assert (turn["reason"] is None) == (status == "ok")


async def test_a_model_failure_with_a_fallback_is_a_fallback(tmp_path: Path) -> None:
    models = scripted(faults={"refused": 1.0})
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:AskerFallsBack", ["a"], models=models)) as stage:
        stage.world.open_round()
        await stage.wait_turns(1)
    assert stage.statuses == {"fallback": 1}
    assert stage.world.reports() == {"a": 0.5}


async def test_tokens_are_counted_and_the_budget_ends_later_turns(tmp_path: Path) -> None:
    price = {"prompt": 1_000_000, "completion": 2_000_000}
    models = scripted(tokens_max=150, max_tokens=20, price=price)
    async with set_stage(tmp_path, make_launch(tmp_path, f"{PLAYERS}:Asker", ["a"], models=models)) as stage:
        for number in range(1, 31):
            stage.world.open_round(number)
            await stage.wait_turns(number)
    turns, calls = stage.read("turns"), stage.read("calls")
    statuses = [row["status"] for row in sorted(turns, key=lambda row: row["turn"])]
    answered = statuses.count("ok")
    assert 0 < answered < 30
    assert statuses == ["ok"] * answered + ["budget"] * (30 - answered)
    spent = sum(row["prompt_tokens"] + row["completion_tokens"] for row in turns)
    assert 0 < spent <= 150
    (total,) = stage.pipeline.models.spent.by_model_and_phase().values()
    assert total.prompt_tokens == stage.pipeline.records.prompt_tokens == sum(row["prompt_tokens"] for row in turns)
    assert total.microdollars == sum(row["microdollars"] for row in calls)
    assert total.microdollars == total.prompt_tokens + 2 * total.completion_tokens
    assert stage.pipeline.is_budget_spent


async def test_a_budget_that_holds_loses_no_turn(tmp_path: Path) -> None:
    ids = [f"a-{number}" for number in range(20)]
    models = scripted(max_tokens=20, latency={"ms": 20})
    launch = make_launch(tmp_path, f"{PLAYERS}:Asker", ids, models=models)
    held = launch.model_copy(update={"budget": RunBudget(tokens_max=200, when_spent="hold")})
    async with set_stage(tmp_path, held) as stage:
        stage.world.open_round()
        await wait_until(lambda: ("/runtime/runs/r/spent", "exhausted") in stage.world.entries)
    told = stage.world.entries["/runtime/runs/r/spent", "exhausted"]
    assert told == {"whose": "run", "unit": "tokens", "maximum": 200}
    assert 0 < len(stage.world.reports()) < 20
    assert set(stage.world.reports().values()) == {12.5}
    turns = by_agent(stage.read("turns"))
    assert {turns[agent] for agent in stage.world.reports()} == {"ok"}
    assert {status for agent, status in turns.items() if agent not in stage.world.reports()} <= {"cancelled"}
    # The next life of the run takes them, and pays with what is left.
    more = launch.model_copy(update={"budget": RunBudget(tokens_max=10_000, when_spent="hold")})
    async with set_stage(tmp_path, more, stage.world, stage.owner) as resumed:
        await wait_until(lambda: len(resumed.world.reports()) == 20)
    assert set(resumed.world.reports().values()) == {12.5}
