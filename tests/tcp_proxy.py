"""A TCP proxy that misbehaves on purpose, between clients and a server on loopback.

proxy = await TcpProxy(server.address).start()      connect to proxy.address
proxy.drops_answers = True                          the server hears, and is not heard
proxy.is_silent = True                              nothing passes, in both directions; nobody is told
proxy.cut()                                         every connection breaks
proxy.refuses = True                                new connections break at once

What was dropped is lost for good, so that connections which lost something can only be cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

CHUNK_BYTES = 65536


class TcpProxy:
    """One listener, any number of connections. Lives in one event loop; stop it."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self.address = ""
        self.drops_answers = False
        self.is_silent = False
        self.refuses = False
        self.attempts_at: list[float] = []
        """When each connection came, in the loop's time."""
        self.answer_bytes_dropped = 0

    @property
    def connections(self) -> int:
        """Those that are open."""
        return len(self._tasks)

    async def start(self) -> Self:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0, backlog=4096)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def cut(self) -> None:
        """Break every connection, without a word."""
        for task, writer in self._tasks.items():
            writer.transport.abort()
            task.cancel()

    async def stop(self) -> None:
        """Break everything and listen no more."""
        assert self._server is not None
        self._server.close()
        tasks = list(self._tasks)
        self.cut()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.attempts_at.append(asyncio.get_running_loop().time())
        if self.refuses:
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="proxy connection")
        self._tasks[task] = writer
        # Also for a task that is cancelled before its first step.
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task).transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back: asyncio.StreamWriter | None = None
        try:
            answers, back = await asyncio.open_connection(*self._target)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, back, lambda: self.is_silent), name="proxy to server")
                both.create_task(
                    self._pass(answers, writer, lambda: self.is_silent or self.drops_answers), name="proxy to client"
                )
        except* OSError:
            pass
        finally:
            if back is not None:
                back.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, drops: Callable[[], bool]
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if drops():
                self.answer_bytes_dropped += len(data)
            else:
                writer.write(data)
                await writer.drain()
        raise ConnectionResetError("one side has ended: so has the other")
