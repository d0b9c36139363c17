"""Types of answers from JSON schemas of a few forms: what typed questions need, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from agent_runtime.model.errors import AgentRuntimeError

_PLAIN: Mapping[str, type] = {"string": str, "boolean": bool, "integer": int, "number": float}
CHOICES_MAX = 100
PROPERTIES_MAX = 64


class AnswerSchemaError(AgentRuntimeError):
    """A schema that is none of those that a question may have."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"answer schema: {where}: {problem}")


def make_answer_type(schema: Mapping[str, Any]) -> type[BaseModel]:
    """The type of an object whose properties are texts, numbers within bounds, booleans or choices; all are required.

    Raises AnswerSchemaError.
    """
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping) or not properties:
        raise AnswerSchemaError("/", "is no object with properties")
    if len(properties) > PROPERTIES_MAX:
        raise AnswerSchemaError("/", f"has {len(properties)} properties, {PROPERTIES_MAX} allowed")
    # By other names: a model's own attributes may be called as a question is.
    fields: dict[str, Any] = {
        f"field_{number}": (_read_type(str(name), one), Field(alias=str(name)))
        for number, (name, one) in enumerate(properties.items())
    }
    config = ConfigDict(extra="ignore", strict=False)
    answer_type: type[BaseModel] = create_model("SurveyAnswer", __config__=config, **fields)
    return answer_type


def _read_type(name: str, schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        raise AnswerSchemaError(name, "is no schema")
    if (choices := schema.get("enum")) is not None:
        if not isinstance(choices, list) or not 1 <= len(choices) <= CHOICES_MAX:
            raise AnswerSchemaError(name, f"has no list of 1 to {CHOICES_MAX} choices")
        if not all(isinstance(choice, str) for choice in choices):
            raise AnswerSchemaError(name, "has choices that are no texts")
        return Literal[tuple(choices)]
    plain = _PLAIN.get(str(schema.get("type")))
    if plain is None:
        raise AnswerSchemaError(name, f"has a type that is none of {', '.join(_PLAIN)}")
    bounds = {short: schema[long] for long, short in (("minimum", "ge"), ("maximum", "le")) if long in schema}
    if plain is float:
        return Annotated[float, Field(allow_inf_nan=False, **bounds)]
    return Annotated[plain, Field(**bounds)] if bounds else plain
