"""What a kind of environment offers, for people, foreign clients and models' tools: names, texts, JSON schemas."""

import inspect
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from env_server.behaviours.behaviour import Behaviour, Listener, Operation
from env_server.model.environments import BASIC
from env_server.model.values import Json


class OperationDescription(NamedTuple):
    """See OperationDescription in the contract."""

    name: str
    description: str
    arguments: Json
    result: Json | None
    """None = any JSON value."""
    exclusive: bool
    timeout_s: float | None
    reads_only: bool


class ListenerDescription(NamedTuple):
    """See ListenerDescription in the contract; path and key are globs."""

    name: str
    description: str
    types: tuple[int, ...]
    path: str
    key: str


class KindDescription(NamedTuple):
    """See KindDescription in the contract."""

    kind: str
    description: str
    operations: tuple[OperationDescription, ...]
    listeners: tuple[ListenerDescription, ...]
    concurrency_max: int


def describe_kind(kind: str, behaviour: Behaviour | None) -> KindDescription:
    """A kind by its behaviour; None for the kind that has none."""
    if behaviour is None:
        text = "An environment without rules of its own." if kind == BASIC else ""
        return KindDescription(kind, text, (), (), 0)
    return KindDescription(
        kind,
        _text(type(behaviour)),
        tuple(_describe_operation(one) for _, one in sorted(behaviour.operations().items())),
        tuple(_describe_listener(one) for _, one in sorted(behaviour.listeners().items())),
        behaviour.concurrency_max,
    )


def _describe_operation(operation: Operation) -> OperationDescription:
    schema = operation.arguments.model_json_schema()
    schema.pop("title", None)
    return OperationDescription(
        operation.name,
        _text(operation.method),
        Json.of(schema),
        _result_schema(operation),
        operation.writes is None and not operation.reads_only,
        operation.timeout_s,
        operation.reads_only,
    )


def _describe_listener(listener: Listener) -> ListenerDescription:
    return ListenerDescription(
        listener.name, _text(listener.method), tuple(sorted(listener.types)), listener.path, listener.key
    )


def _result_schema(operation: Operation) -> Json | None:
    annotation = inspect.signature(operation.method, eval_str=True).return_annotation
    if annotation in (inspect.Signature.empty, Any):
        return None
    try:
        return Json.of(TypeAdapter(annotation).json_schema(mode="serialization"))
    except (PydanticSchemaGenerationError, PydanticUserError, ValueError):  # a type that only its author can read
        return None


def _text(thing: object) -> str:
    return inspect.getdoc(thing) or ""
