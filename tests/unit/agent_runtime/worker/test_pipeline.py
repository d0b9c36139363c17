"""The path of a turn, from the event to its record, on a fake world."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import EventType

from agent_runtime.llm.settings import RunBudget
from tests.unit.agent_runtime.fake_world import REPORTS, FakeWorld
from tests.unit.agent_runtime.players import Listener, Slow
from tests.unit.agent_runtime.stage import PLAYERS, by_agent, make_launch, set_stage, wait_until


def scripted(**more: Any) -> dict[str, Any]:
    return {"m": {"provider": "scripted", "answers": f"{PLAYERS}:answer_number", "attempts_max": 1, **more}}


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
    assert failed["reason"] == "RuntimeError: no luck today"
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
