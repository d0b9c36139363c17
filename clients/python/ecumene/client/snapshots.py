"""Snapshots of worlds as a client sees them, and the moments of worlds that copies came from."""

from __future__ import annotations

from dataclasses import dataclass

from env_api.v1 import world_service_pb2


@dataclass(frozen=True, slots=True)
class Origin:
    """A moment of a world."""

    world: str
    history: str
    revision: int


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A copy of a world that its server keeps; it never changes."""

    name: str
    origin: Origin
    """What was copied, and at which revision."""
    first_retained_revision: int
    """Oldest revision from which a watch of a world restored from it can begin."""
    storage_format: int
    size_bytes: int
    wall_time_ns: int
    sha256: str
    """Of the data file, in hexadecimal digits."""


def read_origin(message: world_service_pb2.Origin) -> Origin:
    """A moment of a world."""
    return Origin(message.world, message.history, message.revision)


def read_snapshot(message: world_service_pb2.Snapshot) -> SnapshotInfo:
    """A snapshot."""
    return SnapshotInfo(
        name=message.name,
        origin=read_origin(message.origin),
        first_retained_revision=message.first_retained_revision,
        storage_format=message.storage_format,
        size_bytes=message.size_bytes,
        wall_time_ns=message.wall_time_ns,
        sha256=message.sha256,
    )
