"""What kinds of environments a server offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from env_api.v1 import environment_service_pb2, environment_service_pb2_grpc

from ecumene.client.filters import read_filter
from ecumene.client.model import EventFilter, Json
from ecumene.client.values import decode_json

if TYPE_CHECKING:
    from ecumene.client.session import Session


@dataclass(frozen=True, slots=True)
class OperationInfo:
    """An operation of a kind."""

    name: str
    description: str
    args_schema: Json
    """JSON schema of the object of arguments."""
    result_schema: Json
    """JSON schema of the result; None = any JSON value."""
    is_exclusive: bool
    """Whether it has its whole environment to itself while it runs."""
    timeout_ms: int
    """0 = the server's default."""
    reads_only: bool = False
    """Whether it changes nothing, whatever its arguments."""


@dataclass(frozen=True, slots=True)
class ListenerInfo:
    """A listener of a kind: what it is called for."""

    name: str
    description: str
    event_filter: EventFilter
    """Relative to the environment of the kind."""


@dataclass(frozen=True, slots=True)
class KindInfo:
    """A kind of environments."""

    kind: str
    description: str
    operations: tuple[OperationInfo, ...]
    listeners: tuple[ListenerInfo, ...]
    concurrency_max: int
    """Operations of one environment that may run at a time; 0 = only the server's bound counts."""


async def describe_kinds(session: Session, kind: str) -> list[KindInfo]:
    """One kind, or all by name."""
    stub: Any = environment_service_pb2_grpc.EnvironmentServiceStub(session.calls.channel)
    request = environment_service_pb2.DescribeKindRequest(kind=kind)
    answer: environment_service_pb2.DescribeKindResponse = await session.calls.call(
        stub.DescribeKind, request, repeatable=True
    )
    return [_read_kind(message) for message in answer.kinds]


def _read_kind(message: environment_service_pb2.KindDescription) -> KindInfo:
    return KindInfo(
        kind=message.kind,
        description=message.description,
        operations=tuple(
            OperationInfo(
                name=operation.name,
                description=operation.description,
                args_schema=decode_json(operation.args_schema_json),
                result_schema=decode_json(operation.result_schema_json),
                is_exclusive=operation.exclusive,
                timeout_ms=operation.timeout_ms,
                reads_only=operation.reads_only,
            )
            for operation in message.operations
        ),
        listeners=tuple(
            ListenerInfo(listener.name, listener.description, read_filter(listener.filter))
            for listener in message.listeners
        ),
        concurrency_max=message.concurrency_max,
    )
