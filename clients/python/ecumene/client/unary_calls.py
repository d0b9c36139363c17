"""Calls outside the session: each has a deadline, and is repeated where a repetition does no harm."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from env_api.v1 import environment_service_pb2

from ecumene.client import error_table
from ecumene.client.backoff import Backoff
from ecumene.client.errors import (
    ConnectionFailedError,
    DeadlineExceededError,
    EcumeneError,
    Executed,
    UnavailableError,
)
from ecumene.client.refused_ops import may_pass
from ecumene.client.settings import ClientSettings


class UnaryCalls:
    """A channel of its own, opened by the first call. Lives in one event loop."""

    def __init__(self, address: str, settings: ClientSettings, timeout_s: float, chance: random.Random) -> None:
        self._address = address
        self._settings = settings
        self._timeout_s = timeout_s
        self._chance = chance
        self._channel: grpc.aio.Channel | None = None

    @property
    def channel(self) -> grpc.aio.Channel:
        """For stubs."""
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._address, options=self._settings.channel_options())
        return self._channel

    async def call(
        self, method: Callable[..., Awaitable[Any]], request: Any, *, repeatable: bool, answer_timeout_s: float = 0.0
    ) -> Any:
        """Call a method of a stub until it is answered, or the time is over.

        Not `repeatable`: only what surely had no effect is sent again. `answer_timeout_s`: how long a server that was
        reached may take, if that is longer; when it is lost meanwhile, there is the usual time to find it again.

        Raises:
            ConnectionFailedError: no answer in time; carries the last cause.
            EcumeneError: the server refused; the class says why.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = started + self._timeout_s
        answer_deadline = started + answer_timeout_s
        cause: EcumeneError = UnavailableError("nothing there answers")
        backoff = Backoff(self._settings.backoff_first_ms, self._settings.backoff_ms_max, self._chance)
        while True:
            attempted = loop.time()
            try:
                left_s = max(0.001, answer_deadline - attempted, deadline - attempted)
                return await method(request, timeout=left_s)
            except grpc.aio.AioRpcError as error:
                failure = error_table.from_rpc_error(error)
                if isinstance(failure, DeadlineExceededError) and not failure.reason:
                    # Our own deadline, which says less than what an earlier attempt was told.
                    raise ConnectionFailedError(self._address, loop.time() - started, cause) from cause
                if not _may_repeat(failure, error, repeatable):
                    raise failure from error
                was_reached = not _was_never_reached(error)
            cause = failure
            if was_reached and loop.time() - attempted > self._timeout_s:
                deadline = loop.time() + self._timeout_s  # it was at work, for longer than it takes to find a server
            delay_s = backoff.next_delay_s(failure.retry_delay_s)
            if loop.time() + delay_s >= deadline:
                raise failure if may_pass(failure) else ConnectionFailedError(self._address, self._timeout_s, failure)
            await asyncio.sleep(delay_s)

    async def close(self) -> None:
        """End the connection."""
        if self._channel is not None:
            await self._channel.close()


def identify(client_id: str, group: str = "") -> environment_service_pb2.Caller:
    """A caller whose repetitions the server recognises, of this session."""
    return environment_service_pb2.Caller(request_id=str(uuid.uuid4()), group=group, client_id=client_id)


def _may_repeat(failure: EcumeneError, error: grpc.aio.AioRpcError, repeatable: bool) -> bool:
    if may_pass(failure):
        return True
    if not isinstance(failure, UnavailableError):
        return False
    # What never reached the server, or was refused by it without effect, may be repeated whatever it is.
    return repeatable or failure.executed is Executed.NO or _was_never_reached(error)


def _was_never_reached(error: grpc.aio.AioRpcError) -> bool:
    return "failed to connect" in (error.details() or "").lower()
