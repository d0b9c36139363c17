"""Questions on a command line."""

from __future__ import annotations

import pytest
from ecumene.cli.asking import parse_question
from ecumene.cli.failures import UsageError
from ecumene.client.runtime_model import QuestionType, SurveyQuestion


def test_questions_are_read() -> None:
    assert parse_question("mood:number:How: well?") == SurveyQuestion("mood", "How: well?", QuestionType.NUMBER)
    assert parse_question("vote:yes|no|?:Will you?") == SurveyQuestion(
        "vote", "Will you?", QuestionType.CHOICE, ("yes", "no", "?")
    )


@pytest.mark.parametrize("text", ["", "mood", "mood:number", "mood:number: ", ":number:x", "mood:colour:x"])
def test_what_is_none_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_question(text)
