"""Spaces of a real server, through the client: alone, in blocks, under leases, in the view of a group, after a kill."""

from __future__ import annotations

import functools
import random

import ecumene
import pytest
from ecumene import Box, EventFilter, EventType, Geo, Graph, Grid, Plane, Proximity, Region, World, connect

from tests.services import ServerProcess
from tests.unit.ecumene.client.conftest import QUICK

GRID = Grid(10, 10, torus=True, capacity=2)
STALL = Region("stall", Box((0, 0), (2, 2)))
CLOSE = Proximity("close", 1.0, "a*")


@pytest.mark.parametrize(
    "space", [GRID, Grid(6, 4, "hex"), Plane(-1, -1, 1, 1), Geo(), Graph.between([("a", "b", 2.5), ("b", "c")])]
)
async def test_a_declaration_comes_back_as_it_was_also_after_a_kill(
    real_server: ServerProcess, real_world: World, space: ecumene.Space
) -> None:
    town = real_world.environment("/town")
    await town.register(space=space)
    await town.change(set_proximities=[CLOSE])
    assert (await town.describe()).space == space
    real_server.kill()
    real_server.start()
    told = await town.describe()
    assert (told.space, told.proximities) == (space, (CLOSE,))


async def test_a_value_and_a_place_come_together_or_not_at_all(real_world: World) -> None:
    town = real_world.environment("/town")
    await town.register(space=GRID)
    await town.set("ann", "here", position=(1, 2))
    with pytest.raises(ecumene.InvalidPositionError):
        await town.set("ann", "there", position=(10, 2))
    with pytest.raises(ecumene.PreconditionFailedError):
        await town.set("ann", "there", position=(3, 3), expect_version=99)
    entry = await town.get("ann")
    assert (entry.value, entry.position) == ("here", (1, 2))
    done = await town.set("ann", "there", position=(3, 3), expect_version=entry.version)
    assert done.version == (await town.get("ann")).version
    assert done.revision == (await town.get("ann")).modify_revision


async def test_blocks_move_a_crowd_and_tell_who_could_not(real_server: ServerProcess, real_world: World) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    town = real_world.environment("/town")
    await town.register(space=Grid(100, 100))
    keys = [f"a{number:04}" for number in range(2_500)]
    places = {key: (chance.randrange(100), chance.randrange(100)) for key in keys}
    created = await town.create_many(keys, list(range(2_500)), list(places.values()))
    assert created.ok_count == 2_500
    start = real_world.revision + 1
    places |= {key: (chance.randrange(100), chance.randrange(100)) for key in keys}
    absent = ["nobody", *keys[:3]]
    moved = await town.move_many(absent + keys[3:], [(0, 0), *places.values()])
    assert moved.ok_count == 2_500
    assert [(lost.index, lost.key, type(lost.error)) for lost in moved.failures] == [
        (0, "nobody", ecumene.EntryNotFoundError)
    ]
    real_server.kill()
    real_server.start()
    assert {entry.key: entry.position async for entry in town.entries()} == places
    told: dict[str, tuple[float, ...]] = {}
    moves = EventFilter(path_prefix="/town", types=(EventType.ENTRY_MOVED,))
    async with real_world.watch_frames(moves, from_revision=start) as batches:
        async for batch in batches:
            told |= {batch.keys[row]: position for row, position in batch.positions.items()}
            if len(told) == 2_500:
                break
    assert told == places
    async with real_world.watch_frames(EventFilter(path_prefix="/town"), initial_state=True) as batches:
        told = {}
        async for batch in batches:
            told |= {batch.keys[row]: position for row, position in batch.positions.items()}
            if batch.synced_revision:
                break
    assert told == places


async def test_who_is_near_is_who_a_scan_finds(real_world: World) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    town = real_world.environment("/town")
    await town.register(space=Plane(0, 0, 10, 10))
    places = {f"a{number:03}": (chance.uniform(0, 10), chance.uniform(0, 10)) for number in range(200)}
    await town.set_many(list(places), [1.5] * 200, list(places.values()))

    def distance(one: str, other: str) -> float:
        (x, y), (u, v) = places[one], places[other]
        return float(((x - u) ** 2 + (y - v) ** 2) ** 0.5)

    table = await town.neighbours(radius=1.0)
    assert len(table) == 200
    for key in chance.sample(list(places), 20):
        others = sorted((distance(key, other), other) for other in places if other != key)
        within = [other for far, other in others if far <= 1.0]
        assert list((await town.near(key, radius=1.0)).keys) == within
        assert sorted(table.of(key)) == sorted(within)
        assert list((await town.near(key, nearest=5)).keys) == [other for _, other in others[:5]]
        assert await town.distance(key, others[0][1]) == pytest.approx(others[0][0])


async def test_members_are_placed_as_they_join(real_world: World) -> None:
    town = real_world.environment("/town")
    await town.register(space=GRID, regions=[STALL])
    async with town.watch(region="stall") as events, real_world.lease(10) as lease:
        assert await lease.join("/town", {"ann": 1, "bob": 2}, positions={"bob": (1, 1), "ann": (5, 5)}) == 2
        assert await lease.join("/town", ["cem"], positions=[(2, 2)]) == 1
        assert {entry.key: entry.position async for entry in town.entries()} == {
            "ann": (5, 5),
            "bob": (1, 1),
            "cem": (2, 2),
        }
        told = [await anext(events) for _ in range(2)]
    assert [(event.type, event.key) for event in told] == [
        (EventType.REGION_ENTERED, "bob"),
        (EventType.REGION_ENTERED, "cem"),
    ]


async def test_a_space_that_comes_late_takes_who_is_there_already(real_world: World) -> None:
    town = real_world.environment("/town")
    await town.register()
    await town.create("ann", 1)
    with pytest.raises(ecumene.SpaceNotFoundError):
        await town.move("ann", (1, 1))
    with pytest.raises(ecumene.SpaceNotFoundError):
        await town.near((1, 1), radius=1)
    await town.change(space=GRID, set_regions=[STALL])
    with pytest.raises(ecumene.SpaceExistsError):
        await town.change(space=Geo())
    with pytest.raises(ecumene.NotPlacedError) as caught:
        await town.near("ann", radius=1)
    assert caught.value.key == "ann"
    await town.move("ann", (1, 1))
    with pytest.raises(ecumene.RegionNotFoundError) as missing:
        await town.change(remove_regions=["shop"])
    assert missing.value.name == "shop"


async def test_the_past_of_an_entry_tells_where_it_was(real_world: World) -> None:
    town = real_world.environment("/town")
    await town.register(space=GRID)
    await town.create("ann", 1, position=(1, 2))
    await town.move("ann", (3, 4))
    await town.move("ann", None)
    past = (await town.read_past("ann")).values
    moves = [value.position for value in past if value.type is EventType.ENTRY_MOVED]
    assert moves == [(1, 2), (3, 4), ()]


async def test_a_group_finds_nobody_where_it_may_not_look(real_server: ServerProcess, real_world: World) -> None:
    for name in ("red", "blue"):
        await real_world.environment(f"/{name}").register(space=GRID)
        await real_world.environment(f"/{name}").create("ann", 1, position=(1, 1))
    async with connect(real_server.address, groups=["/red"], settings=QUICK) as connection:
        red = connection.as_group("/red")
        assert (await red.environment("/red").near((1, 1), radius=0)).keys == ("ann",)
        blue = red.environment("/blue")
        for forbidden in (
            functools.partial(blue.near, (1, 1), radius=0),
            functools.partial(blue.distance, "ann", (0, 0)),
            functools.partial(blue.neighbours, adjacent=True),
            functools.partial(blue.move, "ann", (2, 2)),
        ):
            with pytest.raises(ecumene.PermissionDeniedError):
                await forbidden()


async def test_ways_through_a_graph(real_world: World) -> None:
    roads = Graph.between([("a", "b", 1.0), ("b", "c", 1.0), ("a", "c", 5.0)], names=["island"])
    city = real_world.environment("/city")
    await city.register(space=roads)
    await city.create("ann", 1, position=roads.number("a"))
    way = await city.way("ann", roads.number("c"))
    assert (way.distance, [roads.name(node) for node in way.nodes]) == (2.0, ["a", "b", "c"])
    assert await city.distance("ann", roads.number("c"), hops=True) == 1
    with pytest.raises(ecumene.UnreachableError):
        await city.distance("ann", roads.number("island"))
