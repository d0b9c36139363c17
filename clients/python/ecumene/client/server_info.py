"""What a server tells of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from env_api.v1 import admin_service_pb2, admin_service_pb2_grpc

from ecumene.client.unary_calls import UnaryCalls


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server is, what it promises, and its bounds."""

    version: str
    storage_format: int
    durability: str
    """What every answer has survived: "fsync" = it is on the disk."""
    durability_ahead_ms: int
    """So long an answer may come before it is on the disk; 0 = never before."""
    limits: Mapping[str, int]
    """Every bound by its name, which errors about it give in their metadata as `limit`. Seconds are rounded up."""
    request_ids_max: int
    """Request ids that a world remembers."""
    request_id_age_ms_max: int
    """How long it remembers one at most."""
    worlds_open: int
    worlds: int
    """Open or not."""


async def ask_server_info(calls: UnaryCalls) -> ServerInfo:
    """Ask the server at the other end."""
    stub: Any = admin_service_pb2_grpc.AdminServiceStub(calls.channel)
    answer: admin_service_pb2.GetServerInfoResponse = await calls.call(
        stub.GetServerInfo, admin_service_pb2.GetServerInfoRequest(), repeatable=True
    )
    return ServerInfo(
        version=answer.version,
        storage_format=answer.storage_format,
        durability=answer.durability,
        durability_ahead_ms=answer.durability_ahead_ms,
        limits=dict(sorted(answer.limits.items())),
        request_ids_max=answer.request_ids.ids_max,
        request_id_age_ms_max=answer.request_ids.age_ms_max,
        worlds_open=answer.worlds_open,
        worlds=answer.worlds,
    )
