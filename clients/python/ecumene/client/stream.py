"""One physical session stream: from Hello to its end. Whatever must outlive it belongs to the session."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from env_api.v1 import session_pb2

from ecumene.client import error_table
from ecumene.client.errors import UnavailableError
from ecumene.client.settings import ClientSettings

SESSION_METHOD = "/env_api.v1.EnvironmentService/Session"

Response = tuple[int, session_pb2.SessionResponse]
"""Bytes on the wire, and the message."""


class UnansweredError(UnavailableError):
    """An attempt to connect ran out of its time: it says less than an attempt that was refused."""


class SessionStream:
    """An open stream on a channel of its own."""

    def __init__(self, channel: Any, call: Any, welcome: session_pb2.Welcome) -> None:
        self._channel = channel
        self._call = call
        self.welcome = welcome

    @classmethod
    async def open(
        cls, address: str, hello: session_pb2.Hello, settings: ClientSettings, timeout_s: float
    ) -> SessionStream:
        """Connect, say Hello, and wait for the Welcome.

        Raises:
            UnavailableError: nothing answers at the address, or nothing that speaks this protocol in time.
            EcumeneError: the server refused; the class says why.
        """
        channel = grpc.aio.insecure_channel(address, options=settings.channel_options())
        opened = None
        try:
            async with asyncio.timeout(timeout_s):
                opened = await cls._greet(channel, hello)
            return opened
        except grpc.aio.AioRpcError as error:
            raise error_table.from_rpc_error(error) from error
        except TimeoutError as error:
            raise UnansweredError("nothing there answers") from error
        finally:
            if opened is None:
                await channel.close()

    @classmethod
    async def _greet(cls, channel: grpc.aio.Channel, hello: session_pb2.Hello) -> SessionStream:
        method: Any = channel.stream_stream(SESSION_METHOD, response_deserializer=_parse)
        call: Any = method()
        await call.write(session_pb2.SessionRequest(hello=hello).SerializeToString())
        answer = await call.read()
        if answer is grpc.aio.EOF:
            raise UnavailableError("the server ended the stream without a welcome")
        response: session_pb2.SessionResponse = answer[1]
        if response.WhichOneof("response") == "error":
            raise error_table.from_message(response.error)
        if response.WhichOneof("response") != "welcome":
            raise UnavailableError("the server's first message is not a welcome")
        return cls(channel, call, response.welcome)

    async def write(self, message: bytes) -> None:
        """Hand one message to the transport; returns when it takes more. One writer at a time.

        Raises:
            EcumeneError: the stream has ended.
        """
        try:
            await self._call.write(message)
        except grpc.aio.AioRpcError as error:
            raise error_table.from_rpc_error(error) from error
        except asyncio.InvalidStateError as error:
            raise UnavailableError("the stream has ended") from error

    async def read(self) -> Response | None:
        """The next message; None when the server has ended the stream in order.

        Raises:
            EcumeneError: the stream ended with a status.
        """
        try:
            answer: Any = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise error_table.from_rpc_error(error) from error
        return None if answer is grpc.aio.EOF else answer

    async def close(self) -> None:
        """End the stream and its connection."""
        call, channel = self._call, self._channel
        # Whoever still knows the stream, a traceback for one, must not keep its connection.
        self._call = self._channel = None
        call.cancel()
        await channel.close()


def raise_if_cancelled() -> None:
    """Let a cancellation of this task through that grpc.aio has taken for its own.

    A read awaits the task that prepares its call. Cancelling the reader cancels that one, which takes it for the end of
    the call and returns; if the call has failed meanwhile, the reader is told of that, and of nothing else.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _parse(data: bytes) -> Response:
    return len(data), session_pb2.SessionResponse.FromString(data)
