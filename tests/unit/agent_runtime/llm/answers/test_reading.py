"""Reading typed answers out of what models write."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, Field

from agent_runtime.llm import (
    Completion,
    Message,
    ModelParseError,
    ModelRequest,
    ModelTruncatedError,
)
from agent_runtime.llm.answers import (
    read_completion,
    read_object,
    strip_thinking,
)


class Guess(BaseModel):
    number: float = Field(ge=0, le=100)


REQUEST = ModelRequest("a1", 1, 0, "m", (Message("user", "Pick."),), Guess)


def completion(text: str, finish_reason: str = "stop") -> Completion:
    return Completion(text, finish_reason, 1, 1, "m")


@pytest.mark.parametrize(
    "text",
    [
        '{"number": 33}',
        '{"number": 33}\nI chose it because {most} think of {"number": 50}.',
        'Here you are: {"number": 33}',
        '```json\n{"number": 33}\n```\nHope this helps!',
        '<think>maybe {"number": 50}?</think>{"number": 33}',
        'maybe {"number": 50}?</think>\n{"number": 33}',
        '<think>a<think>{"number": 1}</think>{"number": 2}</think>{"number": 33}',
        'a set {1, 2} and {"other": 1} and {"number": 133} and {"number": 33}',
        '{{"number": 33}',
        '{"number": "33"}',
    ],
)
def test_the_first_fitting_object_outside_think_blocks_is_taken(text: str) -> None:
    assert read_object(text, Guess).number == 33


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it holds no JSON object"),
        ("thirty-three", "it holds no JSON object"),
        ('<think>{"number": 33}', "it holds no JSON object"),
        ('{"number": NaN}', "it holds no JSON object"),
        ('{"number": 33', "it holds no JSON object"),
        ('{"a":' * 100_000, "it holds no JSON object"),
        ('{"number": 133}', "number: Input should be less than or equal to 100"),
        ("{}", "number: Field required"),
    ],
)
def test_an_unusable_text_is_described_in_one_short_line(text: str, problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_object(text, Guess)
    assert str(caught.value) == problem


def test_a_problem_never_quotes_the_answer() -> None:
    with pytest.raises(ModelParseError) as caught:
        read_completion(REQUEST, completion('{"number": "a secret diary"}'))
    assert "diary" not in str(caught.value)
    assert "diary" in caught.value.text


def test_a_cut_off_answer_counts_when_its_object_is_complete() -> None:
    value = read_completion(REQUEST, completion('{"number": 33} because I', "length"))
    assert value == Guess(number=33)
    with pytest.raises(ModelTruncatedError):
        read_completion(REQUEST, completion('{"number": 3', "length"))


def test_strip_thinking_keeps_plain_text() -> None:
    assert strip_thinking(" a < b <thought> ") == "a < b <thought>"
