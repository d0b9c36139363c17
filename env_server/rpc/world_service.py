"""WorldService: creates, lists and deletes worlds."""

from env_api.v1 import world_service_pb2

from env_server.model.names import check_world
from env_server.pipeline import World
from env_server.rpc.edge import Context, Handler, parse
from env_server.rpc.streams import Streams
from env_server.worlds import MAIN, Worlds


class WorldService:
    """The rpcs of WorldService."""

    def __init__(self, worlds: Worlds, streams: Streams) -> None:
        self._worlds = worlds
        self._streams = streams

    def handlers(self) -> dict[str, Handler]:
        """A handler for each rpc, by name."""
        return {"CreateWorld": self._create, "ListWorlds": self._list, "DeleteWorld": self._delete}

    async def _create(self, request: bytes, _context: Context) -> bytes:
        message = parse(world_service_pb2.CreateWorldRequest, request)
        name = message.name or MAIN
        check_world(name)
        world = await self._worlds.create(name, message.if_absent)
        return world_service_pb2.CreateWorldResponse(world=encode_world(world)).SerializeToString()

    async def _list(self, request: bytes, _context: Context) -> bytes:
        parse(world_service_pb2.ListWorldsRequest, request)
        worlds = [encode_world(world) for world in self._worlds.list()]
        return world_service_pb2.ListWorldsResponse(worlds=worlds).SerializeToString()

    async def _delete(self, request: bytes, _context: Context) -> bytes:
        message = parse(world_service_pb2.DeleteWorldRequest, request)
        name = message.name or MAIN
        check_world(name)
        await self._worlds.delete(name, message.history)
        self._streams.end_world(name)
        return world_service_pb2.DeleteWorldResponse().SerializeToString()


def encode_world(world: World) -> world_service_pb2.World:
    """A world as it stands."""
    described = world.describe()
    return world_service_pb2.World(
        name=described.name,
        history=described.history,
        revision=described.revision,
        first_retained_revision=described.first_retained_revision,
        environments=described.environments,
        entries=described.entries,
        storage_bytes=described.storage_bytes,
        storage_bytes_max=described.storage_bytes_max,
    )
