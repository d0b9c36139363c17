"""How endpoints are told the shape of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

from agent_runtime.llm import (
    Message,
    ModelRequest,
    SchemaMode,
    ToolCall,
)
from agent_runtime.llm.answers import answer_schema, shape_messages


class Guess(BaseModel):
    number: float = Field(ge=0, le=100)


class Inner(BaseModel):
    title: str = "none"


class Nested(BaseModel):
    inner: Inner
    title: int = 3


REQUEST = ModelRequest("a1", 1, 0, "m", (Message("user", "Pick."),), Guess)


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


def test_a_schema_after_a_tools_reply_is_a_message_of_its_own() -> None:
    call = ToolCall("c1", "look", "{}")
    history = (Message("user", "Look."), Message("assistant", "", (call,)), Message("tool", "a tree", (), "c1"))
    shaped = shape_messages(ModelRequest("a", 1, 0, "m", history, Guess), SchemaMode.PROMPT)
    assert shaped[:3] == history
    assert shaped[3].role == "user"
