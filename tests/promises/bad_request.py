"""A request that must fail, and the words in which such requests are written down."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import grpc
from env_api.v1 import operations_pb2 as ops
from env_api.v1 import queries_pb2
from env_api.v1 import values_pb2 as values

MIB = 1024 * 1024
INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
EXISTS = grpc.StatusCode.ALREADY_EXISTS
ABORTED = grpc.StatusCode.ABORTED
STATE = grpc.StatusCode.FAILED_PRECONDITION
RANGE = grpc.StatusCode.OUT_OF_RANGE
UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED
INTERNAL = grpc.StatusCode.INTERNAL
LATE = grpc.StatusCode.DEADLINE_EXCEEDED


@dataclass(frozen=True)
class Bad:
    """One bad request. `metadata` must be part of the error's; a value of None must only be there."""

    name: str
    path: str
    key: str
    message: Any
    code: grpc.StatusCode
    reason: str
    metadata: dict[str, str | None] = field(default_factory=dict)
    preconditions: tuple[ops.Precondition, ...] = ()

    @property
    def verb(self) -> str:
        """Which rpc, and which field of an op in a frame."""
        return type(self.message).__name__.lower()


def update(**change: Any) -> ops.Update:
    return ops.Update(**change)


def put(**value: Any) -> ops.Update:
    return ops.Update(set=values.Value(**value))


def environment(**change: Any) -> ops.Update:
    return ops.Update(environment=ops.EnvironmentUpdate(**change))


def transact(*writes: ops.Write, **fields: Any) -> ops.Transact:
    return ops.Transact(writes=writes, **fields)


def write(key: str = "v", **action: Any) -> ops.Write:
    return ops.Write(path="/town", key=key, **(action or {"update": put(int_value=1)}))


def limit(name: str, maximum: int) -> dict[str, str | None]:
    return {"limit": name, "max": str(maximum), "actual": None}


GET = queries_pb2.Query(get=queries_pb2.Get())
DELETE = ops.Delete()
ONE = put(int_value=1)
