"""AdminService: what the server is, and the bounds that clients can run into."""

import importlib.metadata
import math
from dataclasses import fields
from typing import Final

from env_api.v1 import admin_service_pb2

from env_server.model.limits import Limits
from env_server.rpc.edge import Context, Handler, parse
from env_server.storage.layout import FORMAT_VERSION
from env_server.storage.snapshots import SNAPSHOTS_MAX
from env_server.worlds import Worlds

DISTRIBUTION: Final = "ecumene"
_NO_BOUNDS: Final = ("quota_warn", "quota_refuse", "ahead_ms_max")
"""Parts of the room, and what a field of its own tells."""


class AdminService:
    """The rpcs of AdminService."""

    def __init__(self, worlds: Worlds) -> None:
        self._worlds = worlds

    def handlers(self) -> dict[str, Handler]:
        """A handler for each rpc, by name."""
        return {"GetServerInfo": self._describe}

    async def _describe(self, request: bytes, _context: Context) -> bytes:
        parse(admin_service_pb2.GetServerInfoRequest, request)
        limits = self._worlds.limits
        worlds_open, worlds = self._worlds.count()
        bounds = {"worlds_open_max": self._worlds.worlds_open_max, "snapshots_max": SNAPSHOTS_MAX}
        window = admin_service_pb2.RequestIdWindow(
            ids_max=limits.request_ids_max, age_ms_max=math.ceil(limits.request_id_age_s * 1000)
        )
        return admin_service_pb2.GetServerInfoResponse(
            version=find_version(),
            storage_format=FORMAT_VERSION,
            durability="relaxed" if limits.ahead_ms_max else "fsync",
            durability_ahead_ms=limits.ahead_ms_max,
            limits={**list_limits(limits), **bounds},
            request_ids=window,
            worlds_open=worlds_open,
            worlds=worlds,
        ).SerializeToString()


def list_limits(limits: Limits) -> dict[str, int]:
    """Every bound by the name that errors give."""
    return {one.name: math.ceil(getattr(limits, one.name)) for one in fields(limits) if one.name not in _NO_BOUNDS}


def find_version() -> str:
    """Of the installed program; "" when it is not installed."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return ""
