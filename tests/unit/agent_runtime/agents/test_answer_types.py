"""Schemas of typed questions become types that hold answers to them; others are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from agent_runtime.agents.answer_types import AnswerSchemaError, make_answer_type
from agent_runtime.llm.answers import answer_schema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mood": {"type": "number", "minimum": 0, "maximum": 10},
        "age": {"type": "integer"},
        "name": {"type": "string"},
        "model_config": {"type": "boolean"},
        "vote": {"enum": ["yes", "no"]},
    },
}
GOOD: dict[str, Any] = {"mood": 3.5, "age": 4, "name": "ann", "model_config": True, "vote": "no"}


def test_answers_within_the_schema_are_taken() -> None:
    answer = make_answer_type(SCHEMA).model_validate(GOOD)
    assert answer.model_dump(by_alias=True) == GOOD


@pytest.mark.parametrize(
    "wrong", [{"mood": 11}, {"mood": float("inf")}, {"age": 4.5}, {"vote": "maybe"}, {"name": None}]
)
def test_answers_outside_are_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make_answer_type(SCHEMA).model_validate({**GOOD, **wrong})


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"a": {"type": "array"}}},
        {"type": "object", "properties": {"a": 3}},
        {"type": "object", "properties": {"a": {"enum": []}}},
        {"type": "object", "properties": {"a": {"enum": [1.5]}}},
        {"type": "object", "properties": {"a": {"type": "string", "description": {1, 2}}}},
        {"type": "object", "properties": {f"a{n}": {"type": "string"} for n in range(65)}},
    ],
)
def test_other_schemas_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(AnswerSchemaError):
        make_answer_type(schema)


def test_the_same_schema_gives_the_same_type() -> None:
    """A survey of a thousand agents makes one type, and what was learned about asking for it holds on."""
    assert make_answer_type(json.loads(json.dumps(SCHEMA))) is make_answer_type(SCHEMA)
    assert make_answer_type(SCHEMA, "Other") is not make_answer_type(SCHEMA)


def test_endpoints_are_told_names_bounds_and_descriptions() -> None:
    told: dict[str, Any] = {"type": "string", "maxLength": 9, "description": "in a word"}
    schema = answer_schema(make_answer_type({"type": "object", "properties": {"class": told}}))
    assert schema["properties"] == {"class": told}
    assert (schema["required"], schema["additionalProperties"]) == (["class"], False)
