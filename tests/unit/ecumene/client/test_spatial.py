"""Each call about space is the op that the contract has for it, alone, in frames, in transactions and in blocks."""

from __future__ import annotations

from array import array
from typing import Any

import ecumene
import pytest
from ecumene import Box, Near, Nearby, World
from env_api.v1 import operations_pb2, queries_pb2, session_pb2

from tests.unit.ecumene.client.fake_server import FakeServer, reached

TOWN = "/town"


def sent(server: FakeServer) -> list[session_pb2.Op]:
    return [op for frame in server.frames() for op in frame.ops]


def answer(server: FakeServer, **result: Any) -> None:
    server.outcomes.append(operations_pb2.OpOutcome(query=queries_pb2.QueryResult(**result)))


async def test_entries_are_created_set_and_moved_at_positions(server: FakeServer, world: World) -> None:
    town = world.environment(TOWN)
    await town.create("ann", 1, position=(3, 4))
    await town.move("ann", (5, 6), expect_version=1)
    await town.move("ann", None)
    created, moved, left = sent(server)
    assert list(created.register.position) == [3, 4]
    assert list(moved.update.move.position) == [5, 6]
    assert list(server.frames()[1].expect_versions) == [1]
    assert left.update.HasField("move")
    assert not left.update.move.position


async def test_a_value_and_a_place_are_set_in_one_step(server: FakeServer, world: World) -> None:
    written = [operations_pb2.Written(revision=8, version=3), operations_pb2.Written(revision=8, version=4)]
    transact = operations_pb2.TransactResult(revision=8, written=written)
    server.outcomes.append(operations_pb2.OpOutcome(transact=transact))
    done = await world.environment(TOWN).set("ann", "x", position=(1, 2), exists=True, producer="ann", seq=2)
    assert (done.revision, done.version) == (8, 4)
    (op,) = sent(server)
    first, second = op.transact.writes
    assert (first.path, first.key, first.update.set.string_value) == (TOWN, "ann", "x")
    assert first.preconditions[0].exists
    assert list(second.update.move.position) == [1, 2]
    assert list(server.frames()[0].producers) == ["ann"]


@pytest.mark.parametrize(
    ("who", "how", "field"),
    [
        ("ann", {"radius": 0}, "radius"),
        ((3, 4), {"nearest": 2}, "nearest"),
        (7, {"adjacent": True}, "adjacent"),
        (None, {"box": Box((0, 0), (1, 1))}, "box"),
    ],
)
async def test_who_is_near_is_asked_in_one_of_four_ways(
    server: FakeServer, world: World, who: Any, how: dict[str, Any], field: str
) -> None:
    page = queries_pb2.NearbyPage(keys=["bob", "cem"], distances=[1, 2], coordinates=[3, 4, 5, 6], revision=9)
    answer(server, nearby=page)
    near = await world.environment(TOWN).near(who, hops=True, limit=5, **how)
    assert near == Nearby(("bob", "cem"), (1.0, 2.0), ((3.0, 4.0), (5.0, 6.0)), more=False, revision=9)
    assert list(near) == [Near("bob", 1.0, (3.0, 4.0)), Near("cem", 2.0, (5.0, 6.0))]
    (op,) = sent(server)
    ask = op.query.nearby
    assert ask.WhichOneof("which") == field
    assert op.key == (who if isinstance(who, str) else "")
    assert list(ask.position) == {"ann": [], (3, 4): [3, 4], 7: [7], None: []}[who]
    assert (ask.hops, ask.limit) == (True, 5)


@pytest.mark.parametrize(
    ("who", "how"),
    [
        ("ann", {}),
        ("ann", {"radius": 1, "nearest": 2}),
        ("ann", {"box": Box((0, 0), (1, 1))}),
        (None, {"radius": 1}),
        ("ann", {"nearest": -1}),
        ("ann", {"radius": "far"}),
        ("ann", {"radius": 1, "limit": -1}),
    ],
)
async def test_a_question_without_a_meaning_is_refused(
    server: FakeServer, world: World, who: Any, how: dict[str, Any]
) -> None:
    with pytest.raises(ecumene.InvalidFieldError, match="near"):
        await world.environment(TOWN).near(who, **how)
    assert sent(server) == []


async def test_distances_and_ways(server: FakeServer, world: World) -> None:
    town = world.environment(TOWN)
    for _ in range(2):
        answer(server, distance=queries_pb2.DistanceResult(distance=2.5, way=[0, 3], revision=7))
    assert await town.distance("ann", (1, 2)) == 2.5
    assert await town.way(4, "bob", hops=True) == ecumene.Way(2.5, (0, 3), 7)
    first, second = (op.query.distance for op in sent(server))
    assert (first.from_key, list(first.to)) == ("ann", [1, 2])
    assert (list(getattr(second, "from")), second.to_key, second.hops) == ([4], "bob", True)


async def test_everybodys_neighbours_come_in_columns(server: FakeServer, world: World) -> None:
    table = queries_pb2.NeighbourTable(
        keys=["ann", "bob"], counts=[2, 1], neighbours=[1, 2, 0], others=["cem"], coordinates=[0, 1, 2], revision=4
    )
    answer(server, neighbours=table)
    found = await world.environment(TOWN).neighbours(adjacent=True, keys=["ann", "bob"])
    assert (found.of("ann"), found.of("bob"), list(found)) == (["bob", "cem"], ["ann"], ["ann", "bob"])
    ask = sent(server)[0].query.neighbours
    assert (ask.WhichOneof("which"), list(ask.keys)) == ("adjacent", ["ann", "bob"])
    with pytest.raises(ecumene.InvalidFieldError, match="exactly one of radius, nearest, adjacent"):
        await world.environment(TOWN).neighbours()


async def test_many_move_in_blocks_that_the_server_allows(server: FakeServer, world: World) -> None:
    keys = [f"a{number}" for number in range(250)]
    moved = await world.environment(TOWN).move_many(keys, [(number, -number) for number in range(250)])
    assert (moved.ok_count, moved.failures) == (250, ())
    blocks = [frame.block for frame in server.frames()]
    assert [len(block.keys) for block in blocks] == [100, 100, 50]
    assert {block.dimensions for block in blocks} == {2}
    assert list(blocks[1].coordinates)[:4] == [100, -100, 101, -101]
    assert not any(block.doubles or block.ints for block in blocks)


async def test_many_are_set_and_placed_in_one_block(server: FakeServer, world: World) -> None:
    town = world.environment(TOWN)
    await town.set_many(["a", "b"], [1.5, 2.5], [4, 5])
    await town.set_many(["a"], ["x"])
    placed, plain = (frame.block for frame in server.frames())
    assert (list(placed.doubles), list(placed.coordinates), placed.dimensions) == ([1.5, 2.5], [4, 5], 1)
    assert (list(plain.strings), list(plain.coordinates), plain.dimensions) == (["x"], [], 0)
    with pytest.raises(ecumene.InvalidValueError, match="1 values for 2 keys"):
        await town.set_many(["a", "b"], [1.5])


async def test_many_are_created_each_for_itself(server: FakeServer, world: World) -> None:
    result = await world.environment(TOWN).create_many(["a", "bad", "c"], [1, "x", None], [(1, 2), (3, 4), (5, 6)])
    assert (result.ok_count, [(lost.index, lost.key) for lost in result.failures]) == (2, [(1, "bad")])
    with pytest.raises(ecumene.PreconditionFailedError):
        result.raise_failure()
    assert [list(op.register.position) for op in sent(server)] == [[1, 2], [3, 4], [5, 6]]
    assert sent(server)[1].register.value.string_value == "x"


async def test_frames_and_transactions_have_the_same_verbs(server: FakeServer, world: World) -> None:
    frame = world.frame()
    frame.create(TOWN, "ann", 1, position=(1, 2), if_absent=True)
    frame.move(TOWN, "ann", (3, 4))
    (await world.frames.send(frame)).raise_failure()
    created, moved = sent(server)
    assert (list(created.register.position), created.register.if_absent) == ([1, 2], True)
    assert list(moved.update.move.position) == [3, 4]
    writes = world.writes().create(TOWN, "ann", 1, position=7).move(TOWN, "ann", None, exists=True)
    assert list(writes.messages[0].register.position) == [7]
    assert writes.messages[1].update.HasField("move")
    assert writes.messages[1].preconditions[0].exists


async def test_a_watch_can_be_about_one_region(server: FakeServer, world: World) -> None:
    def watches() -> list[session_pb2.WatchStart]:
        return [m.watch for m in server.streams[0].received if m.WhichOneof("request") == "watch"]

    async with world.environment(TOWN).watch(region="market"):
        await reached(lambda: bool(watches()))
    (start,) = watches()
    assert (start.filter.path_prefix, start.filter.region) == (TOWN, "market")


async def test_many_come_from_anything_to_go_through(server: FakeServer, world: World) -> None:
    town = world.environment(TOWN)
    await town.move_many((key for key in "ab"), (place for place in [(1, 2), (3, 4)]))
    await town.set_many((key for key in "ab"), (value for value in (5, 6)), [(1, 2), (3, 4)])
    await town.create_many((key for key in "ab"), (value for value in (5, 6)), [(1, 2), (3, 4)])
    moved, put, _ = (frame.block for frame in server.frames())
    assert (list(moved.keys), list(moved.coordinates)) == (["a", "b"], [1, 2, 3, 4])
    assert (list(put.ints), list(put.coordinates)) == ([5, 6], [1, 2, 3, 4])
    assert [list(op.register.position) for op in sent(server)] == [[1, 2], [3, 4]]
    for many in (town.move_many([5], [(1, 1)]), town.create_many([5], [1], [(1, 1)])):  # type: ignore[list-item]
        with pytest.raises(ecumene.InvalidKeyError):
            await many


async def test_values_of_an_array_are_created_as_they_are_set(server: FakeServer, world: World) -> None:
    town = world.environment(TOWN)
    await town.set_many(["a", "b"], array("d", [1.5, 2.5]))
    await town.create_many(["a", "b"], array("d", [1.5, 2.5]), array("d", [1, 2, 3, 4]))
    assert list(server.frames()[0].block.doubles) == [1.5, 2.5]
    assert [op.register.value.double_value for op in sent(server)] == [1.5, 2.5]


async def test_what_cannot_be_meant_by_many_is_refused_in_words(server: FakeServer, world: World) -> None:
    town = world.environment(TOWN)
    places: Any = [(1, 1), (2, 2)]
    for many, words in (
        (town.move_many("ab", places), "keys of many are a list"),
        (town.create_many("ab", [1, 2], places), "keys of many are a list"),
        (town.neighbours(radius=1, keys="ab"), "keys of many are a list"),
        (town.move_many(["a", "\ud800"], places), "key: must be a str"),
        (town.set_many(["a", "b"], {"a": 1, "b": 2}), "values of many are a list.*dict"),
        (town.create_many(["a", "b"], "12", places), "values of many are a list.*str"),
        (town.near(box="here"), "box"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ecumene.EcumeneError, match=words):
            await many
    with pytest.raises(ecumene.InvalidKeyError):
        await town.neighbours(radius=1, keys=[1])  # type: ignore[list-item]
    assert server.frames() == []
