"""The worlds of a server: create, list, delete. Unary calls, outside any session."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
from env_api.v1 import world_service_pb2, world_service_pb2_grpc

from ecumene.client import error_table
from ecumene.client.addresses import check_address
from ecumene.client.backoff import Backoff
from ecumene.client.errors import ConnectionFailedError, Executed, UnavailableError
from ecumene.client.model import WorldInfo
from ecumene.client.readings import read_world
from ecumene.client.settings import ClientSettings

Answer = TypeVar("Answer")


class Worlds:
    """Asks a server about its worlds. Close it, or use it with `async with`.

    A call gets `timeout_s` in all. Calls that can be repeated without harm are, while the server is unavailable;
    `create` without `if_absent` and `delete` are sent once, for their answer may be lost after their effect.
    """

    def __init__(
        self,
        address: str,
        settings: ClientSettings | None = None,
        timeout_s: float = 10.0,
        chance: random.Random | None = None,
    ) -> None:
        self._address = check_address(address)
        self._settings = settings or ClientSettings()
        self._timeout_s = timeout_s
        self._chance = chance or random.Random()
        self._channel = grpc.aio.insecure_channel(address, options=self._settings.channel_options())
        self._stub: Any = world_service_pb2_grpc.WorldServiceStub(self._channel)

    async def create(self, name: str, *, if_absent: bool = False) -> WorldInfo:
        """Create an empty world, durably; with `if_absent`, return the one that exists.

        Raises:
            WorldExistsError: it exists, and `if_absent` is not given.
            ConnectionFailedError: no server answered in time.
        """
        request = world_service_pb2.CreateWorldRequest(name=name, if_absent=if_absent)
        answer: world_service_pb2.CreateWorldResponse = await self._call(
            self._stub.CreateWorld, request, repeatable=if_absent
        )
        return read_world(answer.world)

    async def list(self) -> list[WorldInfo]:
        """All worlds, by name.

        Raises:
            ConnectionFailedError: no server answered in time.
        """
        answer: world_service_pb2.ListWorldsResponse = await self._call(
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
        await self._call(self._stub.DeleteWorld, request, repeatable=False)

    async def close(self) -> None:
        """End the connection."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _call(self, method: Callable[..., Awaitable[Any]], request: Any, *, repeatable: bool) -> Any:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        backoff = Backoff(self._settings.backoff_first_ms, self._settings.backoff_ms_max, self._chance)
        while True:
            try:
                left_s = max(0.001, deadline - loop.time())
                return await method(request, timeout=left_s)
            except grpc.aio.AioRpcError as error:
                failure = error_table.from_rpc_error(error)
                # What never reached the server, or was refused by it without effect, may be repeated whatever it is.
                harmless = repeatable or _never_left(error) or failure.executed is Executed.NO
                if not isinstance(failure, UnavailableError) or not harmless:
                    raise failure from error
            delay_s = backoff.next_delay_s(failure.retry_delay_s)
            if loop.time() + delay_s >= deadline:
                raise ConnectionFailedError(self._address, self._timeout_s, failure)
            await asyncio.sleep(delay_s)


def _never_left(error: grpc.aio.AioRpcError) -> bool:
    return "failed to connect" in (error.details() or "").lower()
