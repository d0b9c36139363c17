"""What an environment is declared to be goes out and comes back as the same values."""

from __future__ import annotations

from ecumene import Box, Clock, Grid, Proximity, Region, World
from env_api.v1 import operations_pb2, queries_pb2, session_pb2, values_pb2

from tests.unit.ecumene.client.fake_server import FakeServer

ROOM = "/town/market"
STALL = Region("stall", Box((0, 0), (2, 2)))
CLOSE = Proximity("close", 1.0)


def sent(server: FakeServer) -> list[session_pb2.Op]:
    return [op for frame in server.frames() for op in frame.ops]


async def test_a_clock_and_a_space_are_declared_with_the_environment(server: FakeServer, world: World) -> None:
    room = world.environment(ROOM)
    clock, grid = Clock.manual(5), Grid(10, 5, torus=True)
    await room.register(clock=clock, space=grid, regions=[STALL], proximities=[CLOSE])
    register = sent(server)[0].register
    environment = values_pb2.Environment(path=ROOM, clock=register.clock, space=register.space)
    server.outcomes.append(operations_pb2.OpOutcome(query=queries_pb2.QueryResult(environment=environment)))
    told = await room.describe()
    assert (told.clock, told.space, told.regions, told.proximities) == (clock, grid, (STALL,), (CLOSE,))
    await room.register()
    assert not sent(server)[-1].register.HasField("clock")
    assert not sent(server)[-1].register.HasField("space")


async def test_what_is_in_a_space_changes_by_name(server: FakeServer, world: World) -> None:
    await world.environment(ROOM).change(
        clock=Clock.realtime(),
        space=Grid(3, 3),
        set_regions=[STALL],
        remove_regions=["old"],
        set_proximities=[CLOSE],
        remove_proximities=["far"],
    )
    change = sent(server)[0].update.environment
    assert (change.clock.rate, change.space.grid.width) == (1.0, 3)
    assert ([region.name for region in change.set_regions], list(change.remove_regions)) == (["stall"], ["old"])
    assert [proximity.name for proximity in change.set_proximities] == ["close"]
    assert list(change.remove_proximities) == ["far"]
