"""A scripted model without answers of its own has some for whatever it is asked, and they fit."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from agent_runtime.agents.answer_types import make_answer_type
from agent_runtime.agents.scripted_answers import guess_number
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
