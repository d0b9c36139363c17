"""Worlds by rpc."""

from typing import Any

import grpc
import pytest
from env_api.v1 import session_pb2
from env_api.v1 import world_service_pb2 as pb

from tests.unit.env_server.rpc.fakes import Served, serve


async def call(served: Served, name: str, request: Any) -> bytes:
    method = served.channel.unary_unary(f"/env_api.v1.WorldService/{name}")
    return await method(request.SerializeToString())  # type: ignore[no-any-return]


async def test_worlds_are_created_listed_and_deleted() -> None:
    async with serve() as served:
        created = pb.CreateWorldResponse.FromString(
            await call(served, "CreateWorld", pb.CreateWorldRequest(name="two"))
        )
        assert (created.world.name, created.world.first_retained_revision) == ("two", 1)
        again = pb.CreateWorldRequest(name="two")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(served, "CreateWorld", again)
        assert caught.value.code() is grpc.StatusCode.ALREADY_EXISTS
        await call(served, "CreateWorld", pb.CreateWorldRequest(name="two", if_absent=True))
        listed = pb.ListWorldsResponse.FromString(await call(served, "ListWorlds", pb.ListWorldsRequest()))
        assert [world.name for world in listed.worlds] == ["main", "two"]
        await call(served, "DeleteWorld", pb.DeleteWorldRequest(name="two", history="h1"))
        assert list(served.worlds.worlds) == ["main"]


async def test_a_name_that_is_none_is_refused() -> None:
    async with serve() as served:
        for name in ("CreateWorld", "DeleteWorld"):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(served, name, pb.CreateWorldRequest(name="A/b"))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_sessions_of_a_deleted_world_end() -> None:
    async with serve() as served:
        session = served.channel.stream_stream("/env_api.v1.EnvironmentService/Session")()
        hello = session_pb2.SessionRequest(hello=session_pb2.Hello(client_id="c"))
        await session.write(hello.SerializeToString())
        await session.read()
        await call(served, "DeleteWorld", pb.DeleteWorldRequest(name="main"))
        assert await session.code() is grpc.StatusCode.NOT_FOUND


async def test_whatever_rests_on_a_world_says_on_which_line_of_revisions() -> None:
    async with serve() as served:
        served.worlds.worlds["main"].revision = 7
        for name, request, response, wanted in (
            ("CreateWorld", pb.CreateWorldRequest(name="two"), pb.CreateWorldResponse, ("two", "h1", 0)),
            ("SnapshotWorld", pb.SnapshotWorldRequest(name="s"), pb.SnapshotWorldResponse, ("main", "h1", 7)),
            ("ForkWorld", pb.ForkWorldRequest(name="fork"), pb.ForkWorldResponse, ("fork", "h2", 7)),
            (
                "RestoreWorld",
                pb.RestoreWorldRequest(snapshot="s", name="old"),
                pb.RestoreWorldResponse,
                ("old", "h3", 5),
            ),
            ("CompactWorld", pb.CompactWorldRequest(revision=3), pb.CompactWorldResponse, ("main", "h1", 7)),
            ("DeleteWorld", pb.DeleteWorldRequest(name="fork"), pb.DeleteWorldResponse, ("fork", "h2", 7)),
        ):
            answer: Any = response.FromString(await call(served, name, request))
            assert (answer.header.world, answer.header.history, answer.header.revision) == wanted, name
