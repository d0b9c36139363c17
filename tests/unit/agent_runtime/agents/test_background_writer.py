"""The writer of backgrounds as an agent: what it asks, repairs, writes, and gives up."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from ecumene.client import EventType

from agent_runtime.agents.agent import GroupInfo
from agent_runtime.agents.background_writer import BackgroundWriter
from agent_runtime.agents.ready.echoes import find_missing
from agent_runtime.agents.scripted_answers import guess_number
from agent_runtime.llm import ModelTimeoutError
from agent_runtime.llm.requests import ModelRequest
from agent_runtime.model.draws import Draw
from tests.unit.agent_runtime.stage import make_launch, set_stage

HERE = "tests.unit.agent_runtime.agents.test_background_writer"
ANN = {"age": 34, "job": "nurse"}


class Asked:
    requests: ClassVar[list[ModelRequest]] = []
    answers: ClassVar[list[Any]] = []


def answer(request: ModelRequest, draw: Draw) -> Any:
    Asked.requests.append(request)
    given = Asked.answers.pop(0)
    if isinstance(given, Exception):
        raise given
    return given


def told(background: str, name: str = "Ann Lee") -> dict[str, str]:
    return {"name": name, "background": background}


async def write(folder: Path, job: Any, *answers: Any, repairs: int = 1, **model: Any) -> tuple[Any, dict[str, int]]:
    """What an agent wrote, and how its turn ended."""
    Asked.requests, Asked.answers = [], list(answers)
    models = {"m": {"provider": "scripted", "answers": f"{HERE}:answer", "attempts_max": 1, "repairs_max": 0, **model}}
    launch = make_launch(
        folder,
        "background-writer",
        ["ann.1"],
        models=models,
        parameters={"path": "/game/written", "repairs": repairs, "words": {"nurse": ["nursing"]}},
        wake=[{"path": "/game", "key": "{agent}", "types": ["entry_set"]}],
    )
    async with set_stage(folder, launch) as stage:
        stage.world.paths.add("/game/written")
        stage.world.emit((EventType.ENTRY_SET, "/game", "ann.1", job))
        await stage.wait_turns(1)
        return stage.world.entries.get(("/game/written", "ann.1")), stage.statuses


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({}, "path"),
        ({"path": "/x", "prompt": "no-such"}, "no-such is not installed"),
        ({"path": "/x", "repairs": -1}, "repairs"),
        ({"path": "/x", "colour": 1}, "colour"),
    ],
)
def test_mistakes_are_told_before_anybody_is_woken(parameters: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        BackgroundWriter.check_group(GroupInfo("g", parameters, 0))
    assert "\n" not in str(caught.value)


async def test_a_text_that_tells_everything_is_asked_for_once(tmp_path: Path) -> None:
    written, statuses = await write(tmp_path, {"attributes": ANN}, told("At 34, she lives from nursing."))
    assert statuses == {"ok": 1}
    assert (written["status"], written["missing"], written["answers"]) == ("ok", [], 1)
    assert written["text"] == "Ann Lee. At 34, she lives from nursing."
    assert len(Asked.requests) == 1
    assert '"age": 34' in Asked.requests[0].messages[1].content


async def test_what_is_missing_is_asked_for_again_and_the_fuller_text_stands(tmp_path: Path) -> None:
    job = {"attributes": ANN, "other": "Bob, who farms."}
    written, _ = await write(tmp_path, job, told("A nurse."), told("Nothing."), told("A nurse of 34."), repairs=2)
    assert (written["text"], written["missing"], written["answers"]) == ("Ann Lee. A nurse of 34.", [], 3)
    assert "Bob, who farms." in Asked.requests[0].messages[1].content
    assert '{"age": 34}' in Asked.requests[1].messages[-1].content
    assert [request.phase for request in Asked.requests] == ["background", "repair", "repair"]


async def test_what_stays_missing_is_named(tmp_path: Path) -> None:
    written, _ = await write(tmp_path, {"attributes": ANN}, told("A nurse."), told("Nothing."))
    assert (written["text"], written["missing"], written["answers"]) == ("Ann Lee. A nurse.", ["age"], 2)


async def test_a_repair_that_fails_leaves_what_there_is(tmp_path: Path) -> None:
    written, statuses = await write(tmp_path, {"attributes": ANN}, told("A nurse."), ModelTimeoutError("m", 1.0))
    assert (written["status"], written["missing"], written["answers"]) == ("ok", ["age"], 1)
    assert statuses == {"ok": 1}


async def test_without_an_answer_the_reason_is_written(tmp_path: Path) -> None:
    written, statuses = await write(tmp_path, {"attributes": ANN}, ModelTimeoutError("m", 1.0))
    assert written["status"] == "timeout"
    assert "no answer within 1 s" in written["reason"]
    assert statuses == {"fallback": 1}


async def test_a_budget_that_is_spent_is_told_apart(tmp_path: Path) -> None:
    written, _ = await write(tmp_path, {"attributes": ANN}, prompt_tokens_max=1)
    assert written["status"] == "budget"


async def test_a_job_that_is_none_is_written_as_an_error(tmp_path: Path) -> None:
    written, _ = await write(tmp_path, {"attributes": {}})
    assert written["status"] == "error"


def test_the_scripted_stand_in_tells_all_attributes_and_that_nobody_wrote_it() -> None:
    from agent_runtime.agents.ready.backgrounds import BackgroundAnswer, load_background_prompt

    attributes = {"age": 34, "job": "nurse"}
    messages = load_background_prompt("background-1").ask(attributes, "English")
    request = ModelRequest("a", 1, 0, "m", messages, BackgroundAnswer)
    made = guess_number(request, Draw(1, "a", 1, 0))
    text = BackgroundAnswer.model_validate(made).text
    assert find_missing(attributes, text) == ()
    assert "no model was asked" in text
