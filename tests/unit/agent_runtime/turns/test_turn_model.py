"""What a turn's questions are: whose model, what temperature and seed, within which budget, and what is recorded."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ecumene.client import Event

from agent_runtime.agents.agent import Agent
from agent_runtime.agents.ready import NumberAnswer
from agent_runtime.gateways.models import choose_model
from agent_runtime.llm import Message, ModelRequest, Tool, ToolCall
from agent_runtime.llm.settings import ModelMix
from agent_runtime.model.draws import Draw
from agent_runtime.model.errors import LaunchError
from agent_runtime.settings import Launch, parse_launch
from agent_runtime.turns.turn import Turn
from tests.model_endpoint import ModelEndpoint, Reply
from tests.unit.agent_runtime.stage import PLAYERS, Stage, by_agent, set_stage, write_agents

HERE = "tests.unit.agent_runtime.turns.test_turn_model"
WAKE = [{"path": "/game", "types": ["behaviour"], "key": "round.opened"}]


class Planner(Agent):
    """Plans in free text, then picks a number."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        plan = await turn.llm.ask([Message("user", f"{self.id}: a plan?")], phase="plan")
        messages = [Message("user", f"{plan.text} A number?")]
        answer = await turn.llm.ask(messages, answer_type=NumberAnswer, phase="act")
        assert isinstance(answer.value, NumberAnswer)
        turn.report(answer.value.number)


class Looker(Agent):
    """Looks around before it decides."""

    async def on_event(self, event: Event, turn: Turn) -> None:
        tool = Tool("look", "Looks around.", {"type": "object", "properties": {}})
        messages = [Message("user", "Look, then pick a number.")]
        while True:
            answer = await turn.llm.ask(messages, answer_type=NumberAnswer, tools=[tool])
            if isinstance(answer.value, NumberAnswer):
                turn.report(answer.value.number)
                return
            messages.append(Message("assistant", answer.text, answer.tool_calls))
            messages += [Message("tool", "a tree", (), call.id) for call in answer.tool_calls]


def answer_by_draw(request: ModelRequest, draw: Draw) -> Any:
    return {"number": draw.randrange(101)} if request.answer_type is not None else f"Plan {draw.randrange(1000)}."


def answer_after_a_look(request: ModelRequest, draw: Draw) -> Any:
    return ToolCall("c1", "look", "{}") if len(request.messages) == 1 else {"number": 7}


def describe(
    folder: Path, agent: str, ids: Sequence[str], models: Mapping[str, Any], model: Any = "m", **attributes: Any
) -> Launch:
    agents = write_agents(folder / "agents.arrow", ids, **attributes)
    group = {"name": "g", "agent": agent, "agents": str(agents), "wake": WAKE, "model": model}
    return parse_launch({"run": "r", "groups": [group], "models": models, "worker": {"stop_timeout_s": 2}})


async def play(folder: Path, launch: Launch, rounds: int = 1) -> Stage:
    async with set_stage(folder, launch) as stage:
        count = stage.pipeline.agents
        for number in range(1, rounds + 1):
            stage.world.open_round(number)
            await stage.wait_turns(number * count)
    return stage


def scripted(answers: str = f"{HERE}:answer_by_draw", **settings: Any) -> dict[str, Any]:
    return {"provider": "scripted", "answers": answers, **settings}


async def test_agents_own_temperature_and_seed_are_sent(tmp_path: Path) -> None:
    async with ModelEndpoint(Reply('{"number": 1}')) as endpoint:
        models = {"m": {"provider": "openai", "base_url": endpoint.base_url, "model": "m", "temperature": 0.5}}
        own = {"temperature": [0.1, None, 0.9], "seed": [7, 7, None]}
        launch = describe(tmp_path, f"{PLAYERS}:Asker", ["a", "b", "c"], models, **own)
        stage = await play(tmp_path / "first", launch)
        first = {(body["temperature"], body.get("seed")) for body in endpoint.requests}
        endpoint.requests.clear()
        await play(tmp_path / "again", launch)
        assert {(body["temperature"], body.get("seed")) for body in endpoint.requests} == first
    assert sorted(temperature for temperature, _ in first) == [0.1, 0.5, 0.9]
    seeds = {row["agent"]: row["seed"] for row in stage.read("calls")}
    assert seeds["c"] is None
    assert None is not seeds["a"] != seeds["b"], "the same number for two agents gives two seeds"


async def test_a_mix_by_weight_is_kept_for_life_and_follows_the_weights(tmp_path: Path) -> None:
    ids = [f"a{number}" for number in range(2000)]
    mix = {"weights": {"large": 1, "small": 3}}
    models = {"large": scripted(model="large"), "small": scripted(model="small")}
    stage = await play(tmp_path / "run", describe(tmp_path, f"{PLAYERS}:Asker", ids, models, mix), rounds=2)
    asked: dict[str, set[str]] = {}
    for row in stage.read("turns"):
        asked.setdefault(row["agent"], set()).add(row["model"])
    assert all(len(names) == 1 for names in asked.values())
    counts = Counter(name for names in asked.values() for name in names)
    assert abs(counts["large"] - 500) < 90


async def test_a_mix_by_attribute_gives_each_its_own_and_an_unknown_value_fails_alone(tmp_path: Path) -> None:
    mix = {"attribute": "income", "assigned": {"high": "large", "low": "small"}}
    models = {"large": scripted(model="large"), "small": scripted(model="small")}
    launch = describe(tmp_path, f"{PLAYERS}:Asker", ["a", "b", "c"], models, mix, income=["high", "low", "middle"])
    stage = await play(tmp_path / "run", launch)
    assert {row["agent"]: row["model"] for row in stage.read("turns")} == {"a": "large", "b": "small", "c": None}
    assert by_agent(stage.read("turns")) == {"a": "ok", "b": "ok", "c": "error"}
    assert choose_model(ModelMix(attribute="x", assigned={"1": "m"}, otherwise="n"), "a", {"x": 1}, 0) == "m"
    assert choose_model(ModelMix(attribute="x", assigned={"1": "m"}, otherwise="n"), "a", {}, 0) == "n"


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        ({"weights": {"m": 1, "other": 1}}, "asks model 'other'"),
        ({}, "either weights or an attribute"),
        ({"weights": {"m": 0}}, "sum to 0"),
        ({"attribute": "x"}, "names a model"),
    ],
)
def test_a_mix_without_sense_is_told(tmp_path: Path, mix: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        describe(tmp_path, f"{PLAYERS}:Asker", ["a"], {"m": scripted()}, mix)
    assert message in str(caught.value)


async def test_cost_is_summed_by_phase_and_stands_in_the_records_by_agent(tmp_path: Path) -> None:
    models = {"m": scripted(price={"prompt": 1_000_000, "completion": 1_000_000})}
    stage = await play(tmp_path / "run", describe(tmp_path, f"{HERE}:Planner", ["a", "b"], models))
    calls = stage.read("calls")
    assert Counter((row["agent"], row["phase"]) for row in calls) == {
        (agent, phase): 1 for agent in "ab" for phase in ("plan", "act")
    }
    sums = stage.pipeline.models.spent.by_model_and_phase()
    for phase in ("plan", "act"):
        mine = [row for row in calls if row["phase"] == phase]
        assert sums["m", phase].microdollars == sum(row["microdollars"] for row in mine) > 0
        assert sums["m", phase].questions == 2


async def test_a_turn_may_not_take_more_than_its_budget(tmp_path: Path) -> None:
    models = {"m": scripted(turn_tokens_max=120, max_tokens=60)}
    stage = await play(tmp_path / "run", describe(tmp_path, f"{HERE}:Planner", ["a"], models))
    (turn,) = stage.read("turns")
    assert turn["status"] == "ok"
    assert turn["prompt_tokens"] + turn["completion_tokens"] <= 120
    models = {"m": scripted(turn_tokens_max=40, max_tokens=60)}
    stage = await play(tmp_path / "less", describe(tmp_path, f"{HERE}:Planner", ["a"], models))
    (turn,) = stage.read("turns")
    assert (turn["status"], turn["attempts"]) == ("budget", 1)
    assert "what is left of the turn: 0 of 35 tokens are spent" in turn["reason"]


async def test_a_prompt_beyond_its_bound_is_not_sent(tmp_path: Path) -> None:
    models = {"m": scripted(prompt_tokens_max=10)}
    stage = await play(tmp_path / "run", describe(tmp_path, f"{HERE}:Planner", ["a"], models))
    (turn,) = stage.read("turns")
    assert (turn["status"], turn["attempts"]) == ("budget", 0)
    assert "prompt: 16 of 10 tokens" in turn["reason"]


async def test_tools_are_called_within_a_turn(tmp_path: Path) -> None:
    models = {"m": scripted(f"{HERE}:answer_after_a_look", record_bodies=True)}
    stage = await play(tmp_path / "run", describe(tmp_path, f"{HERE}:Looker", ["a"], models))
    assert stage.world.reports() == {"a": 7.0}
    first, second = sorted(stage.read("calls"), key=lambda row: row["call"])
    assert json.loads(first["tool_calls_json"])[0]["name"] == "look"
    assert json.loads(second["request_json"])["messages"][-1] == {
        "role": "tool",
        "content": "a tree",
        "tool_call_id": "c1",
    }


@pytest.mark.parametrize("two_call", [False, True])
@pytest.mark.parametrize("player", ["Planner", "Looker"])
async def test_a_recorded_run_plays_again_to_the_same_end(tmp_path: Path, player: str, two_call: bool) -> None:
    ids = [f"a{number}" for number in range(20)]
    answers = f"{HERE}:answer_by_draw" if player == "Planner" else f"{HERE}:answer_after_a_look"
    faults = {"garbage": 0.1, "refused": 0.05, "truncated": 0.1, "unavailable": 0.05}
    recorded = scripted(answers, record_bodies=True, faults=faults, two_call=two_call, attempts_max=1)
    first = await play(tmp_path / "first", describe(tmp_path, f"{HERE}:{player}", ids, {"m": recorded}), rounds=2)
    again = {"provider": "replay", "replay_from": str(tmp_path / "first" / "rec"), "two_call": two_call}
    launch = describe(tmp_path, f"{HERE}:{player}", ids, {"m": {**again, "model": "scripted"}})
    second = await play(tmp_path / "second", launch, rounds=2)
    assert first.world.reports() == second.world.reports()

    def outcome(stage: Stage) -> Any:
        rows = stage.read("turns")
        return sorted((row["agent"], row["turn"], row["status"], row["prompt_tokens"]) for row in rows)

    assert outcome(first) == outcome(second)
    assert len({row[2] for row in outcome(first)}) > 1, "some turns failed, and failed again"


async def test_a_replay_of_another_prompt_says_what_differs(tmp_path: Path) -> None:
    models = {"m": scripted(record_bodies=True)}
    await play(tmp_path / "first", describe(tmp_path, f"{PLAYERS}:Asker", ["a"], models))
    replayed = {"provider": "replay", "model": "scripted", "replay_from": str(tmp_path / "first" / "rec")}
    launch = describe(tmp_path, f"{HERE}:Planner", ["a"], {"m": replayed})
    stage = await play(tmp_path / "second", launch)
    (turn,) = stage.read("turns")
    assert turn["status"] == "error"
    assert "message 0 differs from character 1 on" in turn["reason"]


async def test_a_cached_answer_is_marked_in_the_record(tmp_path: Path) -> None:
    models = {"m": scripted(cache=str(tmp_path / "cache.sqlite"))}
    stage = await play(tmp_path / "run", describe(tmp_path, f"{PLAYERS}:Asker", ["a"], models), rounds=3)
    calls = sorted(stage.read("calls"), key=lambda row: row["turn"])
    assert [row["cached"] for row in calls] == [0, 1, 1]
    assert [row["attempts"] for row in calls] == [1, 0, 0]
    assert len({row["request_hash"] for row in calls}) == 1


def test_a_run_that_cannot_be_replayed_is_told(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="needs replay_from"):
        describe(tmp_path, f"{PLAYERS}:Asker", ["a"], {"m": {"provider": "replay"}})
