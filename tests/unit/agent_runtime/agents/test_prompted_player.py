"""The prompted player as an agent of a runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_runtime.agents.agent import GroupInfo
from agent_runtime.agents.prompted_player import PromptedGuesser, describe_persona
from tests.unit.agent_runtime.stage import PLAYERS, make_launch, set_stage


@pytest.mark.parametrize(("prompt", "flags"), [("guess-p1", None), ("guess-p2", "wrong_product")])
async def test_it_reports_the_models_number_and_notes_slips(tmp_path: Path, prompt: str, flags: str | None) -> None:
    models = {"m": {"provider": "scripted", "answers": f"{__name__}:answer", "record_bodies": True}}
    launch = make_launch(tmp_path, "prompted-player", ["a"], models=models, parameters={"prompt": prompt})
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round(2, last_winner=30.0)
        await stage.wait_turns(1)
    assert stage.world.reports() == {"a": 33.0}
    (turn,) = stage.read("turns")
    assert (turn["status"], turn["mode"], turn["flags"], turn["attempts"]) == ("ok", "json_schema", flags, 1)
    (call,) = stage.read("calls")
    assert "the winning number was 30" in call["request_json"]
    assert "33" in call["response_text"]


async def test_what_it_was_told_or_asked_stands_in_its_later_prompts(tmp_path: Path) -> None:
    models = {"m": {"provider": "scripted", "answers": f"{__name__}:answer", "record_bodies": True}}
    launch = make_launch(tmp_path, "prompted-player", ["a"], models=models, resumable=True)
    async with set_stage(tmp_path, launch) as stage:
        part, _ = stage.pipeline.find_agent("a")
        await part.tell("a", "Mut!")
        await part.tell("a", "You were asked: Fair? You answered: yes")
        stage.world.open_round()
        await stage.wait_turns(1)
    (call,) = stage.read("calls")
    for text in ("You were told: Mut!", "You were asked: Fair? You answered: yes"):
        assert call["request_json"].count(text) == 1


def answer(request: Any, draw: Any) -> dict[str, Any]:
    return {"reasoning": "2/3 of 45 is 33, so 33.", "number": 33.0}


async def test_a_declared_fallback_decides_when_the_model_does_not(tmp_path: Path) -> None:
    models = {"m": {"provider": "scripted", "answers": f"{PLAYERS}:answer_garbage"}}
    parameters = {"fallback": {"player": "level-k", "level": 0}}
    launch = make_launch(tmp_path, "prompted-player", ["a"], models=models, parameters=parameters)
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round()
        await stage.wait_turns(1)
    assert stage.world.reports() == {"a": 50.0}
    (turn,) = stage.read("turns")
    assert turn["status"] == "fallback"
    assert turn["reason"].startswith("ModelParseError")


async def test_the_scripted_answers_play_towards_the_last_winner(tmp_path: Path) -> None:
    ids = [f"p{number}" for number in range(40)]
    launch = make_launch(tmp_path, "prompted-player", ids, models={"m": {"provider": "scripted"}})
    means = []
    async with set_stage(tmp_path, launch) as stage:
        for number, told in ((1, None), (2, 10.0)):
            stage.world.open_round(number, last_winner=told)
            await stage.wait_turns(40 * number)
            means.append(sum(stage.world.reports().values()) / 40)
    assert means[0] > 20 > means[1] > 0


def test_a_persona_is_what_was_written_or_all_attributes() -> None:
    assert describe_persona({"persona": "A baker.", "age": 40}) == "A baker."
    assert describe_persona({"age": 40, "first_name": "Ann", "note": None}) == "age: 40; first name: Ann"
    assert describe_persona({"age": 40, "background": "Ann bakes."}) == "Ann bakes."
    assert describe_persona({"age": 40, "background": "", "persona": "A baker."}) == "A baker."
    assert describe_persona({"age": 40, "background": ""}) == "age: 40"
    assert describe_persona({}) == ""


async def test_where_groups_play_the_prompt_tells_the_own_group_and_all_numbers(tmp_path: Path) -> None:
    models = {"m": {"provider": "scripted", "record_bodies": True, "answers": {"player": "level-k", "level": 1}}}
    parameters = {"prompt": "guess-p6", "groups_play": ["other", "players"]}
    launch = make_launch(tmp_path, "prompted-player", ["a"], models=models, parameters=parameters)
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round(2, last_winner=22.5, groups={"other": 40.75, "players": None})
        await stage.wait_turns(1)
    assert stage.world.reports() == {"a": pytest.approx(22.5)}
    (call,) = stage.read("calls")
    assert f"a member of the group {launch.groups[0].name}" in call["request_json"]
    assert "other: 40.75, players: none" in call["request_json"]


async def test_a_note_is_told_to_a_group_that_asks_for_it(tmp_path: Path) -> None:
    models = {"m": {"provider": "scripted", "record_bodies": True}}
    launch = make_launch(tmp_path, "prompted-player", ["a"], models=models, parameters={"note": True})
    async with set_stage(tmp_path, launch) as stage:
        stage.world.open_round(1)
        await stage.wait_turns(1)
    (call,) = stage.read("calls")
    assert "a variant of a well-known game" in call["request_json"]


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"prompt": "guess-p6"}, "prompt guess-p6 tells of groups"),
        ({"prompt": "guess-p6", "groups_play": ["a"], "note": True}, "prompt guess-p6 has no part 'note'"),
    ],
)
def test_a_template_that_the_parameters_do_not_fit_is_refused(parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        PromptedGuesser.check_group(GroupInfo("g", parameters, 1))
