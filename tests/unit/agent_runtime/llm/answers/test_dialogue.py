"""One question until its answer: modes, repairs, the second call, tools."""

from __future__ import annotations

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
    Tool,
    ToolCall,
)
from agent_runtime.llm.answers import Dialogue, ModeMemory


class Guess(BaseModel):
    number: float = Field(ge=0, le=100)


REQUEST = ModelRequest("a1", 1, 0, "m", (Message("user", "Pick."),), Guess)


def completion(text: str, finish_reason: str = "stop") -> Completion:
    return Completion(text, finish_reason, 1, 1, "m")


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


async def ask_typed(
    request: ModelRequest, complete: Any, modes: ModeMemory, **options: Any
) -> tuple[Completion | None, BaseModel | None, SchemaMode]:
    """Drives a dialogue as a gateway does, without failures that pass."""
    dialogue = Dialogue(request, modes, **options)
    while True:
        try:
            came = await complete(dialogue.request, dialogue.mode)
        except ModelEndpointError as error:
            if not dialogue.try_next_mode(error):
                raise
            continue
        if dialogue.take(came):
            return dialogue.completion, dialogue.value, dialogue.mode


def refused(http_status: int = 400) -> ModelEndpointError:
    return ModelEndpointError("m", "here:1", http_status, "response_format")


async def test_a_repair_tells_the_model_what_was_wrong_and_happens_once() -> None:
    model = Model(completion('{"number": 133}'), completion('{"number": 13}'))
    answer, value, _ = await ask_typed(REQUEST, model.complete, ModeMemory())
    assert answer == completion('{"number": 13}')
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


async def test_two_calls_answer_freely_then_extract() -> None:
    thought = "<think>they say 50</think>They will say 50, so I choose 33."
    model = Model(completion(thought), refused(), completion('{"number": 33}'))
    dialogue = Dialogue(REQUEST, ModeMemory(), is_two_call=True)
    answer, value, _ = await ask_typed(REQUEST, model.complete, ModeMemory(), is_two_call=True)
    assert (answer, value) == (completion(thought), Guess(number=33))
    assert dialogue.request.answer_type is None
    free, extraction = model.asked[0][0], model.asked[2][0]
    assert (free.messages, free.answer_type, free.step) == (REQUEST.messages, None, 0)
    assert (extraction.answer_type, extraction.step) == (Guess, 1)
    assert "so I choose 33." in extraction.messages[-1].content
    assert "they say 50" not in extraction.messages[-1].content
    assert [mode for _, mode in model.asked] == [SchemaMode.TEXT, SchemaMode.JSON_SCHEMA, SchemaMode.JSON_OBJECT]


async def test_an_extraction_is_repaired_like_any_answer_and_long_answers_keep_their_end() -> None:
    model = Model(completion("x" * 50_000 + " 33"), completion("none"), completion('{"number": 33}'))
    _, value, _ = await ask_typed(REQUEST, model.complete, ModeMemory(), is_two_call=True)
    assert value == Guess(number=33)
    told = model.asked[1][0].messages[-1].content
    assert told.endswith(" 33")
    assert len(told) < 9000


async def test_a_free_answer_that_is_cut_off_is_not_extracted_from() -> None:
    model = Model(completion("They will", "length"))
    with pytest.raises(ModelTruncatedError):
        await ask_typed(REQUEST, model.complete, ModeMemory(), is_two_call=True)
    assert len(model.asked) == 1


LOOK = Tool("look", "Looks around.", {"type": "object", "properties": {}})


def calls(*made: ToolCall) -> Completion:
    return Completion("", "tool_calls", 1, 1, "m", made)


async def test_tool_calls_are_an_answer_without_a_value() -> None:
    request = ModelRequest("a1", 1, 0, "m", (Message("user", "Pick."),), Guess, tools=(LOOK,))
    model = Model(calls(ToolCall("c1", "look", "{}")))
    answer, value, _ = await ask_typed(request, model.complete, ModeMemory())
    assert answer is not None
    assert (answer.tool_calls[0].name, value) == ("look", None)


@pytest.mark.parametrize(
    "bad", [ToolCall("c1", "fly", "{}"), ToolCall("c1", "look", "north"), ToolCall("c1", "look", "3")]
)
async def test_a_call_of_no_tool_or_without_arguments_is_repaired_then_a_parse_error(bad: ToolCall) -> None:
    request = ModelRequest("a1", 1, 0, "m", (Message("user", "Pick."),), tools=(LOOK,))
    model = Model(calls(bad), calls(ToolCall("c2", "look", "{}")))
    answer, _, _ = await ask_typed(request, model.complete, ModeMemory())
    assert answer is not None
    assert answer.tool_calls[0].id == "c2"
    with pytest.raises(ModelParseError):
        await ask_typed(request, Model(calls(bad), calls(bad)).complete, ModeMemory())
