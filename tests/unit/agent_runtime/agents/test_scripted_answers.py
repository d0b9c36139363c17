"""A scripted model without answers of its own has some for whatever it is asked, and they fit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agent_runtime.agents.answer_types import make_answer_type
from agent_runtime.agents.ready import GuessGame, NumberAnswer, PromptedPlayer, ReasonedAnswer, load_template
from agent_runtime.agents.scripted_answers import RuleAnswers, guess_number
from agent_runtime.llm import Message, ModelRequest
from agent_runtime.model.draws import Draw


class Opinion(BaseModel):
    """As an agent of one's own may ask for."""

    side: Literal["yes", "no"]
    only: Literal["this"]
    count: Annotated[int, Field(ge=20, le=23)]
    share: Annotated[float, Field(ge=0.25, le=0.5)]
    below: Annotated[int, Field(le=-5)]
    sure: bool
    why: Annotated[str, Field(max_length=7)]


SURVEY = make_answer_type(
    {
        "type": "object",
        "properties": {
            "mood": {"type": "integer"},
            "again": {"enum": ["yes", "no"]},
            "share": {"type": "number", "minimum": 30},
            "sure": {"type": "boolean"},
            "why": {"type": "string"},
        },
    }
)


def ask(agent: str, answer_type: type[BaseModel] | None, phase: str = "") -> ModelRequest:
    """A question to the scripted model."""
    return ModelRequest(agent, 1, 0, "scripted", (Message("user", "Well?"),), answer_type, phase=phase)


@pytest.mark.parametrize("answer_type", [Opinion, SURVEY])
def test_what_else_is_asked_is_answered_within_its_shape(answer_type: type[BaseModel]) -> None:
    answers = set()
    for number in range(200):
        made = guess_number(ask(f"a{number}", answer_type), Draw(1, f"a{number}", 1, 0))
        assert isinstance(made, dict)
        answers.add(answer_type.model_validate(made, strict=True).model_dump_json())
    assert len(answers) > 20


def test_an_interview_is_told_that_its_answer_is_made_up() -> None:
    assert "no model was asked" in str(guess_number(ask("a", None, "interview"), Draw(1, "a", 1, 0)))
    assert "number" in guess_number(ask("a", None), Draw(1, "a", 1, 0)).model_dump()  # type: ignore[union-attr]


def ask_player(prompt: str, game: GuessGame, number: int, last: float | None, answer_type: Any) -> ModelRequest:
    """What a prompted player asks in a round."""
    messages = PromptedPlayer(load_template(prompt), game).build_messages("", number, last)
    return ModelRequest("a", 40 + number, 0, "scripted", messages, answer_type)


@pytest.mark.parametrize("prompt", ["guess-p1", "guess-p4", "guess-p7"])
@pytest.mark.parametrize("game", [GuessGame(2 / 3), GuessGame(0.51), GuessGame(0.5, 5)])
def test_a_rule_answers_by_what_the_prompt_tells_of_game_round_and_last_winner(prompt: str, game: GuessGame) -> None:
    answers = RuleAnswers({"player": "level-k", "level": 1}, seed=1)
    draw = Draw(1, "a", 1, 0)
    assert answers(ask_player(prompt, game, 1, None, NumberAnswer), draw).number == pytest.approx(game.find_target(50))  # type: ignore[union-attr]
    later = answers(ask_player(prompt, game, 2, 21.0, ReasonedAnswer), draw)
    assert isinstance(later, ReasonedAnswer)
    assert later.number == pytest.approx(21.0)
    listed = RuleAnswers({"player": "listed", "numbers": [9, 8, 7]}, seed=1)
    assert listed(ask_player(prompt, game, 3, 21.0, NumberAnswer), draw).number == 7  # type: ignore[union-attr]


@pytest.mark.parametrize("make", [lambda: guess_number, lambda: RuleAnswers({"player": "random"}, seed=3)])
def test_what_is_extracted_is_what_was_said(make: Any) -> None:
    answers = make()
    free = answers(ask_player("guess-p2", GuessGame(2 / 3), 2, 5.0, None), Draw(1, "a", 1, 0))
    said = Message("user", f"The answer:\n\n{free.model_dump_json()}")
    second = ModelRequest("a", 42, 0, "scripted", (Message("system", "Extract."), said), NumberAnswer, step=1)
    assert answers(second, Draw(9, "a", 1, 0)) == {"number": free.number}
    nothing = ModelRequest("a", 42, 0, "scripted", (Message("user", "The answer:\n\nNo."),), NumberAnswer, step=1)
    assert answers(nothing, Draw(9, "a", 1, 0)) == "The answer:\n\nNo."


def test_a_rule_makes_up_what_is_no_move() -> None:
    made = RuleAnswers({"player": "equilibrium"}, seed=1)(ask("a", SURVEY), Draw(1, "a", 1, 0))
    assert SURVEY.model_validate(made, strict=True)


@pytest.mark.parametrize("parameters", [{}, {"player": "level-k"}, {"player": "nobody"}, {"player": "random", "x": 1}])
def test_a_rule_that_is_none_is_refused_at_once(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"rule player|level-k|random"):
        RuleAnswers(parameters, seed=1)
