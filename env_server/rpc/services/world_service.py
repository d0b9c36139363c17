"""WorldService: creates, lists, copies and deletes worlds."""

from env_api.v1 import world_service_pb2

from env_server.model.names import check_world
from env_server.model.ports import Origin
from env_server.pipeline import WorldDescription
from env_server.rpc.edge import Context, Handler, parse
from env_server.rpc.encode.headers import encode_header, encode_moment
from env_server.rpc.streams import Streams
from env_server.storage.snapshots import Snapshot
from env_server.world_opening import MAIN
from env_server.worlds import Worlds


class WorldService:
    """The rpcs of WorldService."""

    def __init__(self, worlds: Worlds, streams: Streams) -> None:
        self._worlds = worlds
        self._streams = streams

    def handlers(self) -> dict[str, Handler]:
        """A handler for each rpc, by name."""
        return {
            "CreateWorld": self._create,
            "ListWorlds": self._list,
            "DeleteWorld": self._delete,
            "SnapshotWorld": self._snapshot,
            "ListSnapshots": self._list_snapshots,
            "DeleteSnapshot": self._delete_snapshot,
            "RestoreWorld": self._restore,
            "ForkWorld": self._fork,
            "CompactWorld": self._compact,
        }

    async def _create(self, request: bytes, _context: Context) -> bytes:
        message = parse(world_service_pb2.CreateWorldRequest, request)
        name = message.name or MAIN
        check_world(name)
        world = await self._worlds.create(name, message.if_absent)
        return world_service_pb2.CreateWorldResponse(
            world=encode_world(world), header=encode_moment(world.moment)
        ).SerializeToString()

    async def _list(self, request: bytes, _context: Context) -> bytes:
        parse(world_service_pb2.ListWorldsRequest, request)
        worlds = [encode_world(world) for world in await self._worlds.list()]
        return world_service_pb2.ListWorldsResponse(worlds=worlds).SerializeToString()

    async def _delete(self, request: bytes, _context: Context) -> bytes:
        message = parse(world_service_pb2.DeleteWorldRequest, request)
        name = message.name or MAIN
        check_world(name)
        last = await self._worlds.delete(name, message.history)
        self._streams.end_world(name)
        return world_service_pb2.DeleteWorldResponse(header=encode_moment(last)).SerializeToString()

    async def _snapshot(self, request: bytes, _context: Context) -> bytes:
        message = parse(world_service_pb2.SnapshotWorldRequest, request)
        snapshot = await self._worlds.snapshot(message.world, message.name)
        return world_service_pb2.SnapshotWorldResponse(
            snapshot=encode_snapshot(snapshot), header=encode_moment(snapshot.origin)
        ).SerializeToString()

    async def _list_snapshots(self, request: bytes, _context: Context) -> bytes:
        message = parse(world_service_pb2.ListSnapshotsRequest, request)
        if message.world:
            check_world(message.world)
        found, damaged = await self._worlds.snapshots(message.world)
        snapshots = [encode_snapshot(snapshot) for snapshot in found]
        return world_service_pb2.ListSnapshotsResponse(snapshots=snapshots, damaged=damaged).SerializeToString()

    async def _delete_snapshot(self, request: bytes, _context: Context) -> bytes:
        message = parse(world_service_pb2.DeleteSnapshotRequest, request)
        await self._worlds.delete_snapshot(message.name)
        return world_service_pb2.DeleteSnapshotResponse().SerializeToString()

    async def _restore(self, request: bytes, _context: Context) -> bytes:
        message = parse(world_service_pb2.RestoreWorldRequest, request)
        world = await self._worlds.restore(message.snapshot, message.name)
        return world_service_pb2.RestoreWorldResponse(
            world=encode_world(world), header=encode_moment(world.moment)
        ).SerializeToString()

    async def _fork(self, request: bytes, _context: Context) -> bytes:
        message = parse(world_service_pb2.ForkWorldRequest, request)
        world = await self._worlds.fork(message.world, message.name)
        return world_service_pb2.ForkWorldResponse(
            world=encode_world(world), header=encode_moment(world.moment)
        ).SerializeToString()

    async def _compact(self, request: bytes, _context: Context) -> bytes:
        message = parse(world_service_pb2.CompactWorldRequest, request)
        world = await self._worlds.reach(message.world)
        first_revision = await self._worlds.compact(message.world, message.revision)
        return world_service_pb2.CompactWorldResponse(
            first_retained_revision=first_revision, header=encode_header(world)
        ).SerializeToString()


def encode_world(described: WorldDescription) -> world_service_pb2.World:
    """A world as it stands."""
    return world_service_pb2.World(
        name=described.name,
        history=described.history,
        revision=described.revision,
        first_retained_revision=described.first_retained_revision,
        environments=described.environments,
        entries=described.entries,
        storage_bytes=described.storage_bytes,
        storage_bytes_max=described.storage_bytes_max,
        storage_low=described.storage_low,
        restored_from=described.restored_from and encode_origin(described.restored_from),
        open=described.is_open,
    )


def encode_snapshot(snapshot: Snapshot) -> world_service_pb2.Snapshot:
    """A snapshot's manifest."""
    return world_service_pb2.Snapshot(
        name=snapshot.name,
        origin=encode_origin(snapshot.origin),
        first_retained_revision=snapshot.first_revision,
        storage_format=snapshot.storage_format,
        size_bytes=snapshot.size_bytes,
        wall_time_ns=snapshot.wall_ns,
        sha256=snapshot.sha256,
    )


def encode_origin(origin: Origin) -> world_service_pb2.Origin:
    """A moment of a world."""
    return world_service_pb2.Origin(world=origin.world, history=origin.history, revision=origin.revision)
