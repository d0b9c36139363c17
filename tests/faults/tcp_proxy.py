"""A proxy between a client and a server that holds back, cuts, or delays what the server says."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

CHUNK_BYTES = 65_536
HOLD_S = 30.0


class Proxy:
    """Listens on a port of its own. Everything passes, until one of the switches is turned."""

    def __init__(self, port: int) -> None:
        self.connections = 0
        """That were made, over all time."""
        self.held_bytes = 0
        """Of answers that were dropped while `drops_answers`."""
        self.drops_answers = False
        self.delay_s = 0.0
        """Before each piece of an answer."""
        self._held = asyncio.Event()
        self._server_port = port
        self._listener: asyncio.Server
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where it listens."""
        port = self._listener.sockets[0].getsockname()[1]
        return f"127.0.0.1:{port}"

    @property
    def living(self) -> int:
        """Connections that are open now."""
        return len(self._pairs)

    async def hold(self, size_bytes: int) -> None:
        """Drops answers until so many more bytes of them are gone, and on."""
        wanted = self.held_bytes + size_bytes
        self.drops_answers = True
        async with asyncio.timeout(HOLD_S):
            while self.held_bytes < wanted:
                self._held.clear()
                await self._held.wait()

    def cut(self) -> None:
        """Ends every connection on both sides at once."""
        for pair in self._pairs:
            for writer in pair:
                writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._listener.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            to_server, server = await asyncio.open_connection("127.0.0.1", self._server_port)
        except OSError:
            writer.transport.abort()
            return
        pair = writer, server
        self._pairs.add(pair)
        loop = asyncio.get_running_loop()
        ways = [
            loop.create_task(self._carry(reader, server), name="proxy to the server"),
            loop.create_task(self._carry(to_server, writer, answers=True), name="proxy to the client"),
        ]
        self._tasks.update(ways)
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._tasks.difference_update(ways)
            self._pairs.discard(pair)
            for end in pair:
                end.transport.abort()

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, answers: bool = False) -> None:
        while data := await source.read(CHUNK_BYTES):
            if answers and self.drops_answers:
                self.held_bytes += len(data)
                self._held.set()
                continue
            if answers and self.delay_s:
                await asyncio.sleep(self.delay_s)
            target.write(data)
            await target.drain()
