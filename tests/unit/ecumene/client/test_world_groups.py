"""Groups: a connection that was made with them does everything in the name of one."""

from __future__ import annotations

import asyncio

import ecumene
import pytest
from ecumene import Access, EventFilter, Grant, World

from tests.services import ServerProcess
from tests.unit.ecumene.client.conftest import QUICK
from tests.unit.ecumene.client.fake_server import FakeServer


async def test_every_op_frame_and_watch_names_the_group(server: FakeServer) -> None:
    async with ecumene.connect(server.address, groups=["/a", "/b"], settings=QUICK) as world:
        group = world.as_group("/b")
        room = group.environment("/")
        await asyncio.gather(room.set("a", 1.0), world.environment("/").set("b", 1.0), room.get("a"))
        await group.frames.send_block("/", ["c"], [1.0])
        frame = group.frame()
        frame.set("/", "d", 1.0)
        frame.get("/", "d")
        await group.frames.send(frame)
        watch = group.watch(from_revision=1)
        with pytest.raises(AssertionError):
            await group.transaction().set("/", "e", 1.0).commit()  # the fake knows no transactions
        await watch.aclose()
        hello = server.streams[0].hello
        assert list(hello.groups) == ["/a", "/b"]
    assert [list(frame.groups) for frame in server.frames()] == [[2, 0, 2], [2], [2, 2], [2]]
    assert [message.watch.group for message in server.streams[0].received if message.HasField("watch")] == [2]


async def test_only_groups_of_the_connection_can_be_taken(server: FakeServer, world: World) -> None:
    with pytest.raises(ecumene.InvalidFieldError, match=r"connect\(..., groups=\['/a'\]\)"):
        world.as_group("/a")


async def test_a_group_sees_its_own_its_ancestors_and_what_is_granted(
    real_server: ServerProcess, real_world: World
) -> None:
    await real_world.environment("/").set("fact", "for all")
    for name, grants in (("a", []), ("b", [Grant("/a", Access.READ)]), ("c", [Grant("*", Access.WRITE)]), ("d", [])):
        await real_world.environment(f"/{name}").register(grants=grants)
        await real_world.environment(f"/{name}").set("own", name)
    described = await real_world.environment("/b").describe()
    assert described.grants == (Grant("/a", Access.READ),)
    async with ecumene.connect(real_server.address, groups=["/a"], settings=QUICK) as world:
        group = world.as_group("/a")
        places = {name: group.environment(f"/{name}") for name in "abcd"}
        assert await places["a"].value("fact", inherit=True) == "for all"
        assert [await places[name].value("own") for name in "abc"] == ["a", "b", "c"]
        await places["a"].set("new", 1)
        await places["c"].set("new", 1)
        for refused in (
            places["d"].value("own"),
            places["b"].set("own", 1),
            group.environment("/absent").value("own"),
            world.environment("/a").set("own", 1),
            group.transaction().set("/a", "x", 1).set("/d", "x", 1).commit(),
        ):
            with pytest.raises(ecumene.PermissionDeniedError):
                await refused
        watch = group.watch(EventFilter(key_glob="told"))
        await group.environment("/a").set("sync", 1)
        for name in "dabc":
            await real_world.environment(f"/{name}").set("told", 1)
        async with asyncio.timeout(10):
            assert [(await anext(watch)).path for _ in range(3)] == ["/a", "/b", "/c"]
        await real_world.environment("/b").change(remove_grants=["/a"])
        with pytest.raises(ecumene.PermissionDeniedError):
            await places["b"].value("own")
