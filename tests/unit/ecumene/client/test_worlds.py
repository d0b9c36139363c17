"""Unary calls: repeated only where a repetition does no harm, and their errors decoded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import ecumene
import grpc
import pytest
from ecumene import ClientSettings, Worlds
from env_api.v1 import world_service_pb2, world_service_pb2_grpc
from google.rpc import error_details_pb2, status_pb2

QUICK = ClientSettings(backoff_first_ms=1, backoff_ms_max=5)


class FlakyWorlds(world_service_pb2_grpc.WorldServiceServicer):
    """Does what is asked, and loses the first `losses` answers."""

    def __init__(self) -> None:
        self.losses = 0
        self.calls: list[str] = []
        self.names: set[str] = set()
        self.snapshots: dict[str, str] = {}
        self.address = ""

    async def lose(self, context: Any) -> None:
        if self.losses:
            self.losses -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "answer lost")

    async def CreateWorld(self, request: Any, context: Any) -> world_service_pb2.CreateWorldResponse:
        self.calls.append("create")
        if request.name in self.names and not request.if_absent:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, "there already")
        self.names.add(request.name)
        await self.lose(context)
        return world_service_pb2.CreateWorldResponse(world=world_service_pb2.World(name=request.name, revision=1))

    async def ListWorlds(self, _: Any, context: Any) -> world_service_pb2.ListWorldsResponse:
        await self.lose(context)
        worlds = [world_service_pb2.World(name=name) for name in sorted(self.names)]
        return world_service_pb2.ListWorldsResponse(worlds=worlds)

    async def SnapshotWorld(self, request: Any, context: Any) -> world_service_pb2.SnapshotWorldResponse:
        self.calls.append("snapshot")
        name = request.name or f"{request.world}-1"
        self.snapshots[name] = request.world
        await self.lose(context)
        return world_service_pb2.SnapshotWorldResponse(snapshot=self.describe(name))

    async def ListSnapshots(self, request: Any, context: Any) -> world_service_pb2.ListSnapshotsResponse:
        await self.lose(context)
        names = [name for name, world in self.snapshots.items() if request.world in ("", world)]
        return world_service_pb2.ListSnapshotsResponse(snapshots=map(self.describe, names), damaged=["torn"])

    async def DeleteSnapshot(self, request: Any, context: Any) -> world_service_pb2.DeleteSnapshotResponse:
        self.calls.append("delete snapshot")
        del self.snapshots[request.name]
        await self.lose(context)
        return world_service_pb2.DeleteSnapshotResponse()

    async def RestoreWorld(self, request: Any, context: Any) -> world_service_pb2.RestoreWorldResponse:
        self.calls.append("restore")
        await self.lose(context)
        origin = self.describe(request.snapshot).origin
        return world_service_pb2.RestoreWorldResponse(
            world=world_service_pb2.World(name=request.name, restored_from=origin)
        )

    async def ForkWorld(self, request: Any, context: Any) -> world_service_pb2.ForkWorldResponse:
        self.calls.append("fork")
        await self.lose(context)
        return world_service_pb2.ForkWorldResponse(world=world_service_pb2.World(name=request.name, storage_low=True))

    async def CompactWorld(self, request: Any, context: Any) -> world_service_pb2.CompactWorldResponse:
        self.calls.append("compact")
        await self.lose(context)
        return world_service_pb2.CompactWorldResponse(first_retained_revision=request.revision - 1)

    def describe(self, name: str) -> world_service_pb2.Snapshot:
        origin = world_service_pb2.Origin(world=self.snapshots[name], history="h", revision=7)
        return world_service_pb2.Snapshot(name=name, origin=origin, size_bytes=9, sha256="ab")

    async def DeleteWorld(self, request: Any, context: Any) -> world_service_pb2.DeleteWorldResponse:
        self.calls.append("delete")
        self.names.discard(request.name)
        await self.lose(context)
        return world_service_pb2.DeleteWorldResponse()


@pytest.fixture
async def service() -> AsyncIterator[FlakyWorlds]:
    service = FlakyWorlds()
    server = grpc.aio.server()
    world_service_pb2_grpc.add_WorldServiceServicer_to_server(service, server)
    service.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    yield service
    await server.stop(0)


async def test_worlds_are_created_listed_and_deleted(service: FlakyWorlds) -> None:
    async with Worlds(service.address, QUICK) as worlds:
        assert (await worlds.create("b")).name == "b"
        await worlds.create("a", if_absent=True)
        assert [world.name for world in await worlds.list()] == ["a", "b"]
        await worlds.delete("a")
        assert service.names == {"b"}
        with pytest.raises(ecumene.AlreadyExistsError):
            await worlds.create("b")


async def test_what_can_be_repeated_without_harm_is(service: FlakyWorlds) -> None:
    async with Worlds(service.address, QUICK) as worlds:
        service.losses = 2
        assert (await worlds.create("a", if_absent=True)).name == "a"
        assert service.calls == ["create"] * 3
        service.losses = 2
        assert [world.name for world in await worlds.list()] == ["a"]


async def test_what_cannot_be_repeated_is_sent_once(service: FlakyWorlds) -> None:
    async with Worlds(service.address, QUICK) as worlds:
        service.losses = 1
        with pytest.raises(ecumene.UnavailableError, match="answer lost"):
            await worlds.create("a")
        service.losses = 1
        with pytest.raises(ecumene.UnavailableError):
            await worlds.delete("a")
        assert service.calls == ["create", "delete"]


async def test_a_server_that_stays_away_is_an_error_with_the_cause(service: FlakyWorlds) -> None:
    service.losses = 1_000_000
    async with Worlds(service.address, QUICK, timeout_s=0.1) as worlds:
        with pytest.raises(ecumene.ConnectionFailedError, match="answer lost"):
            await worlds.list()


async def test_what_a_draining_server_refused_without_effect_is_repeated_whatever_it_is(service: FlakyWorlds) -> None:
    async def refuse(context: Any) -> None:
        if service.losses:
            service.losses -= 1
            info = error_details_pb2.ErrorInfo(reason="DRAINING", domain="ecumene", metadata={"executed": "no"})
            status = status_pb2.Status(code=14, message="about to stop")
            status.details.add().Pack(info)
            trailer = (("grpc-status-details-bin", status.SerializeToString()),)
            await context.abort(grpc.StatusCode.UNAVAILABLE, "about to stop", trailer)

    service.lose = refuse  # type: ignore[method-assign]
    async with Worlds(service.address, QUICK) as worlds:
        service.losses = 2
        assert (await worlds.create("a", if_absent=True)).name == "a"
        service.losses = 2
        await worlds.delete("a")
    assert service.calls == ["create"] * 3 + ["delete"] * 3


async def test_snapshots_are_taken_listed_restored_and_deleted(service: FlakyWorlds) -> None:
    async with Worlds(service.address, QUICK) as worlds:
        taken = await worlds.snapshot("town")
        assert (taken.name, taken.origin, taken.size_bytes) == ("town-1", ecumene.Origin("town", "h", 7), 9)
        await worlds.snapshot(name="monday")
        assert [snapshot.name for snapshot in await worlds.snapshots()] == ["town-1", "monday"]
        assert [snapshot.origin.world for snapshot in await worlds.snapshots("main")] == ["main"]
        assert await worlds.damaged_snapshots() == ["torn"]
        restored = await worlds.restore("town-1", "again")
        assert (restored.name, restored.restored_from, restored.storage_low) == ("again", taken.origin, False)
        forked = await worlds.fork("town", "other")
        assert (forked.name, forked.restored_from, forked.storage_low) == ("other", None, True)
        await worlds.delete_snapshot("monday")
        assert await worlds.compact("town", 8) == 7


async def test_copies_are_asked_for_once_and_compaction_again(service: FlakyWorlds) -> None:
    async with Worlds(service.address, QUICK) as worlds:
        await worlds.snapshot("town")
        service.calls.clear()
        for call in (
            lambda: worlds.snapshot("town"),
            lambda: worlds.restore("town-1", "again"),
            lambda: worlds.fork("town", "other"),
            lambda: worlds.delete_snapshot("town-1"),
        ):
            service.losses = 1
            with pytest.raises(ecumene.UnavailableError, match="answer lost"):
                await call()
        assert service.calls == ["snapshot", "restore", "fork", "delete snapshot"]
        service.losses = 2
        assert await worlds.compact("town", 5) == 4
        assert service.calls[4:] == ["compact"] * 3


async def test_a_copy_may_take_longer_than_reaching_the_server(service: FlakyWorlds) -> None:
    async with Worlds(service.address, QUICK, timeout_s=0.05) as worlds:

        async def slowly(context: Any) -> None:
            await asyncio.sleep(0.2)

        service.lose = slowly  # type: ignore[method-assign]
        assert (await worlds.snapshot("town")).name == "town-1"
        with pytest.raises(ecumene.EcumeneError):
            await worlds.snapshots()
