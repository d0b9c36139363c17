"""The ready agent: what a group may say, what its model is told, and what becomes of answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from ecumene.client import EventType

from agent_runtime.agents.agent import GroupInfo
from agent_runtime.agents.prompted_agent import PromptedAgent
from agent_runtime.agents.scene_templates import SceneTemplateError, load_scene_template
from agent_runtime.llm.requests import ModelRequest
from agent_runtime.model.draws import Draw
from tests.unit.agent_runtime.fake_world import REPORTS, FakeWorld
from tests.unit.agent_runtime.stage import make_launch, set_stage, wait_until

HERE = "tests.unit.agent_runtime.agents.test_prompted_agent"
PROMPT = {
    "name": "p",
    "version": 1,
    "rules": "You live in $town.",
    "situation": "Round $round. $events | $observation",
    "persona": "You: $persona ($id).",
    "question": "So, in round $round?",
}
MOODS = {"mood": {"type": "string", "enum": ["calm", "angry"]}, "trust": {"type": "number", "minimum": 0, "maximum": 1}}


HOUR_NS = 3_600 * 10**9


class Asked:
    requests: ClassVar[list[ModelRequest]] = []
    answer: ClassVar[Any] = "Nothing to do."


def answer(request: ModelRequest, draw: Draw) -> Any:
    Asked.requests.append(request)
    return Asked.answer


def models(**more: Any) -> dict[str, Any]:
    return {"m": {"provider": "scripted", "answers": f"{HERE}:answer", "attempts_max": 1, "repairs_max": 0, **more}}


@pytest.fixture(autouse=True)
def forget_requests() -> None:
    Asked.requests = []
    Asked.answer = "Nothing to do."


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"prompt": "no-such"}, "no-such is not installed; there are resident-1, respondent-1"),
        ({"prompt": {**PROMPT, "rules": "You are $persona"}}, r"rules may not use \$persona"),
        ({"prompt": {**PROMPT, "rules": "100 $"}}, "stray"),
        ({"prompt": PROMPT}, "needs values for town"),
        ({"promt": "resident-1"}, "promt: Extra inputs"),
        ({"observe": [{"path": "/a"}]}, "observe.0: an observation is of one thing"),
        ({"tools": [{"path": "/a", "binds": {}}]}, "tools.0.binds"),
        ({"answer": {"mood": {"type": "feeling"}}}, "answer.mood.type"),
        ({"answer_to": {"path": "/a"}}, "answer_to needs answer"),
        ({"answer": MOODS, "fallback": {"answer": {"mood": "merry", "trust": 0}}}, "calm"),
        ({"fallback": {"nothing": True, "answer": {}}}, "one of answer, operation and nothing"),
        ({"fallback": {"operation": "x"}}, "needs its path"),
        ({"prompt_tokens_max": 10}, "prompt_tokens_max"),
        ({"wake_daily": ["07:00"]}, "wake_daily needs a calendar"),
        ({"wake_daily": ["7am"]}, "wake_daily.0"),
        ({"calendar": {"start": "2026-05-01T00:00", "zone": "Nowhere"}}, "no time zone 'Nowhere'"),
    ],
)
def test_mistakes_are_told_before_anybody_is_woken(parameters: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        PromptedAgent.check_group(GroupInfo("g", parameters, 0))
    assert "\n" not in str(caught.value)


def test_every_installed_prompt_is_sound() -> None:
    for name in ("resident-1", "respondent-1"):
        assert load_scene_template(name).find_values() == frozenset()
    with pytest.raises(SceneTemplateError):
        load_scene_template({"name": "x"})


async def test_a_prompt_tells_rules_situation_persona_memory_and_question_in_this_order(tmp_path: Path) -> None:
    parameters = {
        "prompt": PROMPT,
        "values": {"town": "$Oz"},
        "observe": [{"path": "/game", "key": "weather", "title": "Weather"}, {"path": "/game", "key": "absent"}],
    }
    launch = make_launch(tmp_path, "prompted-agent", ["ann"], models=models(), parameters=parameters)
    table = pa.table({"agent_id": ["ann"], "persona": ["a $baker"]})
    with pa.OSFile(str(launch.groups[0].agents), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    async with set_stage(tmp_path, launch) as stage:
        stage.world.entries["/game", "weather"] = {"sky": "grey"}
        for number in (1, 2):
            stage.world.open_round(number)
            await stage.wait_turns(number)
    assert stage.statuses == {"ok": 2}
    system, user = Asked.requests[1].messages
    assert system.content == "You live in $Oz."
    parts = ["Round 2. /game round.opened (behaviour): {", 'Weather:\n{"sky": "grey"}', "/game absent:\n(nothing:",
             "You: a $baker (ann).", "What you remember", "Round 1: /game round.opened", "So, in round 2?"]  # fmt: skip
    places = [user.content.index(part) for part in parts]
    assert places == sorted(places)
    assert "You did nothing. You said: Nothing to do." in user.content


async def test_a_typed_answer_is_reported_or_written_where_the_group_says(tmp_path: Path) -> None:
    Asked.answer = {"mood": "calm", "trust": 0.5}
    for folder, place in (("report", None), ("place", {"path": "/game", "key": "mood-of-{agent}"})):
        (tmp_path / folder).mkdir()
        parameters = {"answer": MOODS, "prompt": "respondent-1", **({"answer_to": place} if place else {})}
        launch = make_launch(tmp_path / folder, "prompted-agent", ["ann"], models=models(), parameters=parameters)
        async with set_stage(tmp_path / folder, launch) as stage:
            stage.world.open_round()
            await stage.wait_turns(1)
        assert stage.statuses == {"ok": 1}
        told = stage.world.entries[("/game", "mood-of-ann") if place else (REPORTS, "ann")]
        assert told == {"mood": "calm", "trust": 0.5}


async def test_one_field_is_reported_as_itself_and_a_fallback_stands_for_a_bad_answer(tmp_path: Path) -> None:
    parameters = {"answer": {"trust": MOODS["trust"]}, "fallback": {"answer": {"trust": 0.1}}}
    launch = make_launch(tmp_path, "prompted-agent", ["ann"], models=models(), parameters=parameters)
    async with set_stage(tmp_path, launch) as stage:
        for number, Asked.answer in ((1, {"trust": 0.75}), (2, {"trust": 7}), (3, "perhaps")):
            stage.world.open_round(number)
            await stage.wait_turns(number)
            assert stage.world.reports()["ann"] == (0.75 if number == 1 else 0.1)
    assert [row["status"] for row in stage.read("turns")] == ["ok", "fallback", "fallback"]
    assert "You did not decide." in Asked.requests[2].messages[1].content


async def test_later_turns_than_wanted_pass_without_a_question(tmp_path: Path) -> None:
    launch = make_launch(tmp_path, "prompted-agent", ["ann"], models=models(), parameters={"turns_max": 2})
    async with set_stage(tmp_path, launch) as stage:
        for number in range(1, 6):
            stage.world.open_round(number)
            await stage.wait_turns(number)
    assert stage.statuses == {"ok": 5} and len(Asked.requests) == 2


async def test_a_huge_observation_never_makes_a_prompt_longer_than_allowed(tmp_path: Path) -> None:
    parameters = {"observe": [{"path": "/game", "key": f"k{n}"} for n in range(20)], "prompt_tokens_max": 600}
    launch = make_launch(tmp_path, "prompted-agent", ["ann"], models=models(), parameters=parameters)
    async with set_stage(tmp_path, launch) as stage:
        for number in range(20):
            stage.world.entries["/game", f"k{number}"] = "面包" * 5_000
        stage.world.emit((EventType.BEHAVIOUR, "/game", "round.opened", {"note": "x" * 100_000}))
        await stage.wait_turns(1)
    assert stage.statuses == {"ok": 1}
    assert sum(len(message.content) for message in Asked.requests[0].messages) < 1_800


async def test_an_agent_with_a_calendar_wakes_by_its_routine_and_is_told_the_time_as_people_tell_it(
    tmp_path: Path,
) -> None:
    parameters = {
        "calendar": {"start": "2026-05-01T00:00", "zone": "Europe/Berlin"},
        "wake_daily": ["07:00", "19:30"],
        "turns_max": 3,
    }
    launch = make_launch(
        tmp_path,
        "prompted-agent",
        ["ann"],
        models=models(),
        parameters=parameters,
        clock="/game",
        first_wake_ns=HOUR_NS,
    )
    world = FakeWorld()
    world.clock_ns = 0
    async with set_stage(tmp_path, launch, world) as stage:
        clock = stage.pipeline.parts["g.0"].clock
        assert clock is not None
        await wait_until(lambda: not clock.activity.is_busy)
        world.advance(100 * HOUR_NS)
        await stage.wait_turns(4)
        await wait_until(lambda: not clock.activity.is_busy)
        assert not world.timers, "turns_max"
    assert [row["sim_time_ns"] / HOUR_NS for row in stage.read("turns")] == [1, 7, 19.5, 31]
    told = [request.messages[1].content for request in Asked.requests]
    assert "It is Friday 2026-05-01 01:00 (Europe/Berlin).\nIt is time: you had planned to wake now." in told[0]
    assert "It is Friday 2026-05-01 19:30 (Europe/Berlin)." in told[2]
    assert "At Friday 2026-05-01 07:00 (Europe/Berlin): It is time" in told[2]
