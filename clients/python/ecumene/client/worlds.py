"""The worlds of a server: create, list, copy, delete. Unary calls, outside any session."""

from __future__ import annotations

import builtins
import random
from types import TracebackType
from typing import Any, Self

from env_api.v1 import world_service_pb2, world_service_pb2_grpc

from ecumene.client.addresses import find_address
from ecumene.client.model import WorldInfo
from ecumene.client.readings import read_world
from ecumene.client.server_info import ServerInfo, ask_server_info
from ecumene.client.settings import ClientSettings
from ecumene.client.snapshots import SnapshotInfo, read_snapshot
from ecumene.client.unary_calls import UnaryCalls

COPY_TIMEOUT_S = 3600.0
"""For calls that copy a world, or wait for it to forget: they take as long as the disk needs."""


class Worlds:
    """Asks a server about its worlds, by default the one that `connect` takes. Close it, or use it with `async with`.

    A call gets `timeout_s` in all, one that copies a world that long to reach the server and then as long as it
    takes. Calls that can be repeated without harm are, while the server is unavailable; `create` without `if_absent`,
    `delete` and those that copy are sent once, for their answer may be lost after their effect.
    """

    def __init__(
        self,
        address: str | None = None,
        settings: ClientSettings | None = None,
        timeout_s: float = 10.0,
        chance: random.Random | None = None,
    ) -> None:
        settings, chance = settings or ClientSettings(), chance or random.Random()
        self._calls = UnaryCalls(find_address(address), settings, timeout_s, chance)
        self._stub: Any = world_service_pb2_grpc.WorldServiceStub(self._calls.channel)

    async def server_info(self) -> ServerInfo:
        """What the server is, what it promises, and its bounds.

        Raises:
            ConnectionFailedError: no server answered in time.
        """
        return await ask_server_info(self._calls)

    async def create(self, name: str, *, if_absent: bool = False) -> WorldInfo:
        """Create an empty world, durably; with `if_absent`, return the one that exists.

        Raises:
            WorldExistsError: it exists, and `if_absent` is not given.
            ConnectionFailedError: no server answered in time.
        """
        request = world_service_pb2.CreateWorldRequest(name=name, if_absent=if_absent)
        answer: world_service_pb2.CreateWorldResponse = await self._calls.call(
            self._stub.CreateWorld, request, repeatable=if_absent
        )
        return read_world(answer.world)

    async def list(self) -> list[WorldInfo]:
        """All worlds, by name, open or not.

        Raises:
            ConnectionFailedError: no server answered in time.
        """
        answer: world_service_pb2.ListWorldsResponse = await self._calls.call(
            self._stub.ListWorlds, world_service_pb2.ListWorldsRequest(), repeatable=True
        )
        return [read_world(world) for world in answer.worlds]

    async def delete(self, name: str, *, history: str = "") -> None:
        """Delete a world with all its data, for ever. `history` guards against deleting a newer one of the name.

        Raises:
            WorldNotFoundError: there is none.
            HistoryMismatchError: it is another one.
            UnavailableError: no answer; the world may be gone.
        """
        request = world_service_pb2.DeleteWorldRequest(name=name, history=history)
        await self._calls.call(self._stub.DeleteWorld, request, repeatable=False)

    async def snapshot(self, world: str = "main", name: str = "") -> SnapshotInfo:
        """Copy a world as it stands, while it goes on; the copy is whole and on the server's disk on return.

        `name`: a-z, 0-9 and -, at most 80; "" = the world's, its revision and a few digits.

        Raises:
            SnapshotExistsError: there is one of that name.
            SnapshotQuotaError, StorageQuotaError: there are too many, or the disk has no room.
        """
        request = world_service_pb2.SnapshotWorldRequest(world=world, name=name)
        answer = await self._copy(self._stub.SnapshotWorld, request)
        return read_snapshot(answer.snapshot)

    async def snapshots(self, world: str = "") -> builtins.list[SnapshotInfo]:
        """The snapshots that can be restored, of one world or of all, oldest first."""
        request = world_service_pb2.ListSnapshotsRequest(world=world)
        answer: world_service_pb2.ListSnapshotsResponse = await self._calls.call(
            self._stub.ListSnapshots, request, repeatable=True
        )
        return [read_snapshot(snapshot) for snapshot in answer.snapshots]

    async def damaged_snapshots(self) -> builtins.list[str]:
        """Names of snapshots whose description cannot be read; the server leaves them as they are."""
        answer: world_service_pb2.ListSnapshotsResponse = await self._calls.call(
            self._stub.ListSnapshots, world_service_pb2.ListSnapshotsRequest(), repeatable=True
        )
        return [*answer.damaged]

    async def delete_snapshot(self, name: str) -> None:
        """Delete a snapshot, for ever.

        Raises:
            SnapshotNotFoundError: there is none.
        """
        request = world_service_pb2.DeleteSnapshotRequest(name=name)
        await self._calls.call(self._stub.DeleteSnapshot, request, repeatable=False)

    async def restore(self, snapshot: str, name: str) -> WorldInfo:
        """Make a world of a snapshot, under a name that is free.

        It has a history of its own, so that nobody takes it for the one that was copied.

        Raises:
            SnapshotNotFoundError: there is none.
            SnapshotDamagedError: it is not what was written; nothing was made.
            WorldExistsError, WorldQuotaError, StorageQuotaError: no world was made.
        """
        request = world_service_pb2.RestoreWorldRequest(snapshot=snapshot, name=name)
        answer = await self._copy(self._stub.RestoreWorld, request)
        return read_world(answer.world)

    async def fork(self, world: str, name: str) -> WorldInfo:
        """Make a world that begins as another one stands now, which goes on; otherwise as `restore`."""
        request = world_service_pb2.ForkWorldRequest(world=world, name=name)
        answer = await self._copy(self._stub.ForkWorld, request)
        return read_world(answer.world)

    async def compact(self, world: str = "main", revision: int = 0) -> int:
        """Let a world forget its events below a revision, 0 = its present one; the state stays.

        Returns the oldest revision that is kept: at or below the one that was asked for, since what subscriptions and
        a restart need is kept.

        Raises:
            RevisionInFutureError: the world has not come so far.
        """
        request = world_service_pb2.CompactWorldRequest(world=world, revision=revision)
        answer: world_service_pb2.CompactWorldResponse = await self._copy(
            self._stub.CompactWorld, request, repeatable=True
        )
        return answer.first_retained_revision

    async def close(self) -> None:
        """End the connection."""
        await self._calls.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _copy(self, method: Any, request: Any, *, repeatable: bool = False) -> Any:
        return await self._calls.call(method, request, repeatable=repeatable, answer_timeout_s=COPY_TIMEOUT_S)
