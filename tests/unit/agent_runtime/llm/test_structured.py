"""Reading typed answers out of what models write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

from agent_runtime.llm import (
    Completion,
    Message,
    ModelEndpointError,
    ModelParseError,
    ModelRefusedError,
    ModelRequest,
    ModelTruncatedError,
    SchemaMode,
)
from agent_runtime.llm.structured import (
    ModeMemory,
    answer_schema,
    ask_typed,
    read_completion,
    read_object,
    shape_messages,
    strip_thinking,
)


class Guess(BaseModel):
    number: float = Field(ge=0, le=100)


class Inner(BaseModel):
    title: str = "none"


class Nested(BaseModel):
    inner: Inner
    title: int = 3


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


def test_the_strict_schema_closes_objects_and_keeps_a_property_named_title() -> None:
    schema: Any = answer_schema(Nested)
    assert schema["required"] == ["inner", "title"]
    assert schema["properties"]["title"] == {"type": "integer"}
    assert schema["$defs"]["Inner"] == {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("mode", [SchemaMode.JSON_OBJECT, SchemaMode.PROMPT])
def test_weaker_modes_state_the_schema_at_the_end(mode: SchemaMode) -> None:
    (message,) = shape_messages(REQUEST, mode)
    assert message.content.startswith("Pick.")
    assert message.content.endswith(json.dumps(answer_schema(Guess), separators=(",", ":")))
    assert shape_messages(REQUEST, SchemaMode.JSON_SCHEMA) == REQUEST.messages


class Model:
    """Answers from a list and keeps what it was asked."""

    def __init__(self, *answers: Completion | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[ModelRequest, SchemaMode]] = []

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        self.asked.append((request, mode))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def refused(http_status: int = 400) -> ModelEndpointError:
    return ModelEndpointError("m", "here:1", http_status, "response_format")


async def test_a_repair_tells_the_model_what_was_wrong_and_happens_once() -> None:
    model = Model(completion('{"number": 133}'), completion('{"number": 13}'))
    _, value, _ = await ask_typed(REQUEST, model.complete, ModeMemory())
    assert value == Guess(number=13)
    quoted, told = model.asked[1][0].messages[-2:]
    assert quoted == Message("assistant", '{"number": 133}')
    assert "number: Input should be less than or equal to 100" in told.content

    model = Model(completion("no"), completion("never"), completion('{"number": 1}'))
    with pytest.raises(ModelParseError) as caught:
        await ask_typed(REQUEST, model.complete, ModeMemory())
    assert (caught.value.text, len(model.asked)) == ("never", 2)


async def test_a_long_bad_answer_is_cut_in_the_repair() -> None:
    model = Model(completion("word " * 10_000), completion('{"number": 1}'))
    await ask_typed(REQUEST, model.complete, ModeMemory())
    assert len(model.asked[1][0].messages[-2].content) == 2000


@pytest.mark.parametrize(
    ("text", "mode"),
    [(" \n\n ", SchemaMode.PROMPT), ("<think>hm {", SchemaMode.PROMPT), ('{"num', SchemaMode.JSON_SCHEMA)],
)
async def test_an_answer_that_looped_in_its_grammar_is_repaired_without_it(text: str, mode: SchemaMode) -> None:
    model = Model(completion(text, "length"), completion('{"number": 1}'))
    _, _, used = await ask_typed(REQUEST, model.complete, ModeMemory())
    assert used is model.asked[1][1] is mode


async def test_a_refusal_is_not_argued_with() -> None:
    model = Model(completion("I will not.", "content_filter"))
    with pytest.raises(ModelRefusedError):
        await ask_typed(REQUEST, model.complete, ModeMemory())


async def test_the_first_mode_that_works_is_remembered() -> None:
    modes = ModeMemory()
    model = Model(refused(), refused(422), completion('{"number": 1}'), completion('{"number": 2}'))
    _, _, used = await ask_typed(REQUEST, model.complete, modes)
    assert used is SchemaMode.PROMPT
    await ask_typed(REQUEST, model.complete, modes)
    assert len(model.asked) == 4
    assert modes.accepted() == {"m/Guess": SchemaMode.PROMPT}


@pytest.mark.parametrize("http_status", [401, 403, 404])
async def test_a_refusal_that_no_mode_can_cure_is_final(http_status: int) -> None:
    model = Model(refused(http_status))
    with pytest.raises(ModelEndpointError):
        await ask_typed(REQUEST, model.complete, ModeMemory())
    assert len(model.asked) == 1
