"""POSTs of JSON to one address, over aiohttp's connections and without its sessions.

A session builds for every request anew what never changes here: address, headers, cookies, timers. That was 40 of the
60 µs of CPU that a call took. Connections, TLS, keep-alive, parsing and decompression are aiohttp's all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import aiohttp
from aiohttp import hdrs
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

CONNECT_TIMEOUT_S = 10.0
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_FINAL_STATUS_MIN, _SWITCHED_STATUS = 200, 101


class ResponseTooLargeError(Exception):
    """A response larger than asked for; its `status` is known."""

    def __init__(self, status: int) -> None:
        super().__init__(f"response of status {status} is too large")
        self.status = status


@dataclass(slots=True)
class Response:
    """What came back: `reason` is the words beside the status."""

    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes


class JsonPoster:
    """Posts JSON to `url`. Belongs to the event loop in which it is made.

    Keeps at most `connections_max` connections; follows no redirects, keeps no cookies, uses no proxy. A post may take
    `timeout_s` seconds, None = as long as the caller waits.
    """

    def __init__(
        self,
        url: URL,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        connections_max: int,
        timeout_s: float | None = None,
        response_bytes_max: int,
    ) -> None:
        self._timeout_s = timeout_s
        self._connect_timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S)
        self._response_bytes_max = response_bytes_max
        self._connector = aiohttp.TCPConnector(limit=connections_max)
        # It names the address to the connector, and knows the headers that every request has.
        self._address = aiohttp.ClientRequest(
            hdrs.METH_POST, url, headers=CIMultiDict(headers), loop=asyncio.get_running_loop()
        )
        self._head = _write_head(self._address)

    async def post(self, body: bytes) -> Response:
        """Send `body`; what came back, whatever its status. Cancelled, the connection is closed.

        Raises:
            aiohttp.ClientError: no connection (`ConnectionTimeoutError`: none in time), one that broke, or no HTTP.
            ResponseTooLargeError: more than `response_bytes_max`.
            TimeoutError: not within `timeout_s`.
        """
        if self._timeout_s is None:
            return await self._post(body)
        async with asyncio.timeout(self._timeout_s):
            return await self._post(body)

    async def aclose(self) -> None:
        """Close all connections; posts under way fail. May be called twice."""
        await self._connector.close()

    async def _post(self, body: bytes) -> Response:
        connection = await self._connect()
        try:
            protocol, transport = connection.protocol, connection.transport
            if protocol is None or transport is None or transport.is_closing():
                raise aiohttp.ClientConnectionResetError("closed before anything was sent")
            protocol.set_response_params(read_until_eof=True)
            transport.writelines((self._head, b"%d\r\n\r\n" % len(body), body))
            response = await self._read(protocol)
        except BaseException:
            connection.close()
            raise
        connection.release()
        return response

    async def _connect(self) -> Connection:
        """A connection on which nothing has been said that was not asked for."""
        for _ in range(self._connector.limit + 1):  # those that are kept, and a new one
            try:
                connection = await self._connector.connect(self._address, [], self._connect_timeout)
            except TimeoutError as error:
                raise aiohttp.ConnectionTimeoutError(f"no connection within {CONNECT_TIMEOUT_S:g} s") from error
            if (protocol := connection.protocol) is None or not protocol.should_close:
                return connection
            # Such as a 408 for being idle: the next question would take it for its answer, and be followed in that.
            connection.close()
        raise aiohttp.ClientConnectionResetError("an answer came before anything was sent")

    async def _read(self, protocol: ResponseHandler) -> Response:
        try:
            message, stream = await protocol.read()
            while message.code < _FINAL_STATUS_MIN and message.code != _SWITCHED_STATUS:
                message, stream = await protocol.read()
        except HttpProcessingError as error:
            raise aiohttp.ClientPayloadError("what came back is not HTTP") from error
        if stream.is_eof():  # as most, it has come whole with its head
            content = stream.read_nowait()
        else:
            parts, size = [], 0
            while size <= self._response_bytes_max and (part := await stream.readany()):
                parts.append(part)
                size += len(part)
            content = b"".join(parts)
        if len(content) > self._response_bytes_max:
            raise ResponseTooLargeError(message.code)
        return Response(message.code, message.reason, message.headers, content)


def _write_head(request: aiohttp.ClientRequest) -> bytes:
    """The head of every request to an address, up to the number of the bytes that follow."""
    lines = [f"{request.method} {request.url.raw_path_qs} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in request.headers.items() if name != hdrs.CONTENT_LENGTH]
    if any("\r" in line or "\n" in line or "\0" in line for line in lines):
        raise ValueError("a header holds a line break")
    return "\r\n".join([*lines, f"{hdrs.CONTENT_LENGTH}: "]).encode("utf-8")
