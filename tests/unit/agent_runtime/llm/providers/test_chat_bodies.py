"""What goes over the wire to an endpoint: put together in pieces, and the same as if it were not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from agent_runtime.llm import Message, ModelRequest, SchemaMode, Tool, ToolCall
from agent_runtime.llm.answers import answer_schema
from agent_runtime.llm.providers.chat_bodies import read_completion, write_request


class Guess(BaseModel):
    number: float


SAID = (Message("system", 'Rules: "quotes", \n lines, ünïcode, \x00.'), Message("user", "Pick."))
PLAIN = ModelRequest("a", 1, 0, 'm"1', SAID)
SHAPED = replace(PLAIN, answer_type=Guess, temperature=0.25, seed=2**63, max_tokens=9)
CALLED = Message("assistant", "", (ToolCall("c1", "look", '{"far": true}'),))
WITH_TOOLS = replace(
    SHAPED,
    messages=(*SAID, CALLED, Message("tool", "a tree", (), "c1")),
    tools=(Tool("look", "Looks.", {"type": "object", "properties": {}}),),
)
SHAPE = {"name": "Guess", "strict": True, "schema": answer_schema(Guess)}
TOLD = [{"role": message.role, "content": message.content} for message in SAID]
CALLS = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"far": true}'}}]


@pytest.mark.parametrize(
    ("request_", "mode", "expected"),
    [
        (PLAIN, SchemaMode.TEXT, {"messages": TOLD, "max_tokens": 256}),
        (
            SHAPED,
            SchemaMode.JSON_SCHEMA,
            {
                "messages": TOLD,
                "max_tokens": 9,
                "temperature": 0.25,
                "seed": 2**63,
                "response_format": {"type": "json_schema", "json_schema": SHAPE},
            },
        ),
        (
            WITH_TOOLS,
            SchemaMode.JSON_SCHEMA,
            {
                "messages": [
                    *TOLD,
                    {"role": "assistant", "content": None, "tool_calls": CALLS},
                    {"role": "tool", "content": "a tree", "tool_call_id": "c1"},
                ],
                "max_tokens": 9,
                "temperature": 0.25,
                "seed": 2**63,
                "response_format": {"type": "json_schema", "json_schema": SHAPE},
                "tools": [
                    {
                        "type": "function",
                        "function": {
                            "name": "look",
                            "description": "Looks.",
                            "parameters": {"type": "object", "properties": {}},
                        },
                    }
                ],
            },
        ),
    ],
)
def test_a_request_says_all_that_was_asked(request_: ModelRequest, mode: SchemaMode, expected: dict[str, Any]) -> None:
    body = json.loads(write_request(request_, mode, "max_tokens"))
    assert body == {"model": 'm"1', "stream": False, **expected}


def test_the_shape_is_asked_for_as_the_mode_says_and_the_bound_under_its_name() -> None:
    as_object = json.loads(write_request(SHAPED, SchemaMode.JSON_OBJECT, "max_completion_tokens"))
    assert as_object["response_format"] == {"type": "json_object"}
    assert as_object["max_completion_tokens"] == 9 and "max_tokens" not in as_object
    in_words = json.loads(write_request(SHAPED, SchemaMode.PROMPT, "max_tokens"))
    assert "response_format" not in in_words
    assert all("JSON schema" in body["messages"][-1]["content"] for body in (as_object, in_words))


def test_a_completion_without_usage_and_name_is_one_of_whom_was_asked() -> None:
    completion = read_completion(b'{"choices": [{"message": {"content": "22"}}]}', "m")
    assert (completion.text, completion.model, completion.finish_reason) == ("22", "m", "stop")
    assert (completion.prompt_tokens, completion.completion_tokens, completion.tool_calls) == (0, 0, ())


def test_a_tool_call_without_an_id_gets_one() -> None:
    calls = [{"function": {"name": "look"}}]
    completion = read_completion(json.dumps({"choices": [{"message": {"tool_calls": calls}}]}).encode(), "m")
    assert completion.tool_calls == (ToolCall("call_0", "look", "{}"),)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"choices": [{"message": 3}]}', b'{"choices": [{}]}', b"\xff"])
def test_other_bodies_are_no_completions(content: bytes) -> None:
    with pytest.raises(ValueError):
        read_completion(content, "m")
