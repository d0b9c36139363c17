"""How an endpoint is told the shape of an answer."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

from pydantic import BaseModel

from agent_runtime.llm.requests import Message, ModelRequest, SchemaMode


@lru_cache(maxsize=256)
def answer_schema(answer_type: type[BaseModel]) -> dict[str, object]:
    """Returns the JSON schema of `answer_type` in the strict dialect: closed objects, every property
    required, no titles and defaults. Do not change the returned value: it is shared."""
    schema = _tighten(answer_type.model_json_schema())
    assert isinstance(schema, dict)
    return schema


def shape_messages(request: ModelRequest, mode: SchemaMode) -> tuple[Message, ...]:
    """Returns the messages to send in `mode`: below `json_schema` the last one states the schema.

    It goes to the end, where it leaves the shared beginning of many prompts cacheable.
    """
    if request.answer_type is None or mode in (SchemaMode.JSON_SCHEMA, SchemaMode.TEXT):
        return request.messages
    schema = json.dumps(answer_schema(request.answer_type), ensure_ascii=False, separators=(",", ":"))
    last = request.messages[-1]
    told = f"Reply with a single JSON object and nothing else. Its JSON schema: {schema}"
    if last.role in ("tool", "assistant"):
        return (*request.messages, Message("user", told))
    told = f"{last.content}\n\n{told}"
    return (*request.messages[:-1], replace(last, content=told))


def _tighten(node: object, *, names: bool = False) -> object:
    """Returns a schema node in the strict dialect; `names` marks a map from names to schemas."""
    if isinstance(node, list):
        return [_tighten(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _tighten(child) for name, child in node.items()}
    tight = {
        key: _tighten(child, names=key in ("properties", "$defs"))
        for key, child in node.items()
        if key not in ("title", "default")
    }
    if "properties" in tight:
        tight["additionalProperties"] = False
        tight["required"] = list(node["properties"])
    return tight
