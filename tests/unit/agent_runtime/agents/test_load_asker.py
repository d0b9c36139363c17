"""The agent that asks many questions in one turn: as many, so many at a time, all recorded, all told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ecumene.client import EventType

from agent_runtime.agents.agent import GroupInfo
from agent_runtime.agents.load_asker import QUESTIONS_MAX, LoadAsker
from tests.model_endpoint import ModelEndpoint, Reply, Status, Step
from tests.unit.agent_runtime.stage import make_launch, set_stage

CLASS = "agent_runtime.agents.load_asker:LoadAsker"
WAKE = [{"path": "/game", "types": ["entry_set"], "key": "ask"}]
SHAPE = {"type": "object", "properties": {"boats": {"type": "number"}}}
PARAMETERS: dict[str, Any] = {"rules": "Be brief.", "question": "You are {number}. How many?", "answer": SHAPE}


def describe_model(endpoint: ModelEndpoint) -> dict[str, Any]:
    return {"provider": "openai", "model": "m", "base_url": endpoint.base_url, "attempts_max": 1, "repairs_max": 0}


async def ask(folder: Path, endpoint: ModelEndpoint, load: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """What the agent tells of a load, and the recorded calls."""
    models = {"m": describe_model(endpoint)}
    launch = make_launch(folder, CLASS, ["asker"], models=models, wake=WAKE, parameters=PARAMETERS)
    async with set_stage(folder, launch) as stage:
        stage.world.emit((EventType.ENTRY_SET, "/game", "ask", load))
        await stage.wait_turns(1)
    assert stage.statuses == {"ok": 1}
    return stage.world.entries["/game", "asked"], stage.read("calls")


async def test_every_question_is_asked_once_within_the_bound_and_recorded(tmp_path: Path) -> None:
    async with ModelEndpoint(Reply('{"boats": 3}', prompt_tokens=20, completion_tokens=5, delay_s=0.01)) as endpoint:
        told, calls = await ask(tmp_path, endpoint, {"number": 7, "first": 100, "questions": 40, "at_a_time": 8})
    assert (told["number"], told["answered"], told["failed"]) == (7, 40, 0)
    assert (told["prompt_tokens"], told["completion_tokens"]) == (800, 200)
    assert told["wall_s"] >= 0.05
    said = sorted(body["messages"][1]["content"] for body in endpoint.requests)
    assert said == sorted(f"You are {number}. How many?" for number in range(100, 140))
    assert endpoint.in_flight_peak == 8
    assert endpoint.complaints == []
    assert len(calls) == 40 and {call["status"] for call in calls} == {"ok"}
    assert len({call["request_hash"] for call in calls}) == 40


async def test_what_fails_is_counted_and_the_others_go_on(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> Step:
        return Status(400) if "are 3." in body["messages"][1]["content"] else Reply('{"boats": 3}')

    async with ModelEndpoint(reply) as endpoint:
        told, calls = await ask(tmp_path, endpoint, {"number": 1, "questions": 10, "at_a_time": 4})
    assert (told["answered"], told["failed"]) == (9, 1)
    assert sorted(call["status"] for call in calls) == ["error"] + 9 * ["ok"]


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"rules": "Be brief."}, "question"),
        ({**PARAMETERS, "more": 1}, "more"),
        ({**PARAMETERS, "answer": {"type": "string"}}, "no object"),
    ],
)
def test_wrong_parameters_are_told_in_one_line(parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        LoadAsker.check_group(GroupInfo("g", parameters, 0))
    assert "\n" not in str(caught.value)


async def test_more_than_the_records_can_number_is_refused(tmp_path: Path) -> None:
    async with ModelEndpoint(Reply('{"boats": 3}')) as endpoint:
        launch = make_launch(
            tmp_path, CLASS, ["a"], models={"m": describe_model(endpoint)}, wake=WAKE, parameters=PARAMETERS
        )
        async with set_stage(tmp_path, launch) as stage:
            load = {"number": 1, "questions": QUESTIONS_MAX + 1, "at_a_time": 1}
            stage.world.emit((EventType.ENTRY_SET, "/game", "ask", load))
            await stage.wait_turns(1)
        assert stage.statuses == {"error": 1}
    assert endpoint.requests == []
