"""Types of answers from JSON schemas of a few forms: what typed questions need, and no more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from agent_runtime.model.errors import AgentRuntimeError

_PLAIN: Mapping[str, type] = {"string": str, "boolean": bool, "integer": int, "number": float}
_BOUNDS: Mapping[str, str] = {"minimum": "ge", "maximum": "le", "maxLength": "max_length"}
CHOICES_MAX = 100
PROPERTIES_MAX = 64
_KNOWN_MAX = 256


class AnswerSchemaError(AgentRuntimeError, ValueError):
    """A schema that is none of those that a question may have."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"answer schema: {where}: {problem}")


def make_answer_type(schema: Mapping[str, Any], name: str = "Answer") -> type[BaseModel]:
    """The type of an object whose properties are texts, numbers within bounds, booleans or choices; all are required.

    What else an answer holds is passed over. `model_dump(by_alias=True)` has the properties by their names. The same
    schema gives the same type: what has been learned about asking for it holds on.

    Raises AnswerSchemaError.
    """
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise AnswerSchemaError("/", f"is no JSON: {error}") from error
    return _make_type(text, name)


@lru_cache(maxsize=_KNOWN_MAX)
def _make_type(text: str, name: str) -> type[BaseModel]:
    schema = json.loads(text)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or schema.get("type") != "object" or not properties:
        raise AnswerSchemaError("/", "is no object with properties")
    if len(properties) > PROPERTIES_MAX:
        raise AnswerSchemaError("/", f"has {len(properties)} properties, {PROPERTIES_MAX} allowed")
    # By other names: a model's own attributes may be called as a question is.
    fields: dict[str, Any] = {
        f"field_{number}": (_read_type(property_name, one), Field(alias=property_name, description=_describe(one)))
        for number, (property_name, one) in enumerate(properties.items())
    }
    config = ConfigDict(extra="ignore", strict=False, frozen=True)
    answer_type: type[BaseModel] = create_model(name, __config__=config, **fields)
    return answer_type


def _describe(schema: Mapping[str, Any]) -> str | None:
    description = schema.get("description")
    return str(description) if description else None


def _read_type(name: str, schema: Any) -> Any:
    if not isinstance(schema, dict):
        raise AnswerSchemaError(name, "is no schema")
    if (choices := schema.get("enum")) is not None:
        if not isinstance(choices, list) or not 1 <= len(choices) <= CHOICES_MAX:
            raise AnswerSchemaError(name, f"has no list of 1 to {CHOICES_MAX} choices")
        if not all(isinstance(choice, str | int) for choice in choices):
            raise AnswerSchemaError(name, "has choices that are neither texts nor whole numbers")
        return Literal[tuple(choices)]
    plain = _PLAIN.get(str(schema.get("type")))
    if plain is None:
        raise AnswerSchemaError(name, f"has a type that is none of {', '.join(_PLAIN)}")
    bounds = {short: schema[long] for long, short in _BOUNDS.items() if schema.get(long) is not None}
    if plain is float:
        return Annotated[float, Field(allow_inf_nan=False, **bounds)]
    return Annotated[plain, Field(**bounds)] if bounds else plain
