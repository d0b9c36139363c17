"""Two ways to send the same load: through the SDK to a server, and bare to the lean engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import grpc

from ecumene.bench.wire import FRAMES_METHOD, MESSAGE_BYTES_MAX, UPDATE_METHOD, encode_frame, encode_update, read_done
from ecumene.client.frame_result import FrameResult
from ecumene.client.world import World, connect

LEAN_FRAMES_IN_FLIGHT_MAX = 64
PRODUCER_SEQ = 7

_OPTIONS = [
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    # A connection each, as clients in processes of their own would have.
    ("grpc.use_local_subchannel_pool", 1),
]


class FrameSender(Protocol):
    """Sends frames in order, a bounded number unanswered."""

    async def submit(
        self, path: str, keys: Sequence[str], values: Sequence[float], producers: Sequence[str] | None
    ) -> Awaitable[int]:
        """Queue a frame that sets doubles; what is returned gives the number of ops that were done, when durable."""


class UnarySender(Protocol):
    """Sends single ops as unary calls."""

    async def put(self, key: str, value: float) -> None:
        """Set a double; returns when it is durable."""


@asynccontextmanager
async def open_frame_sender(target: str, address: str, paths: Sequence[str]) -> AsyncIterator[FrameSender]:
    """A client of its own connection, and the environments that it will write to."""
    if target == "lean":
        async with LeanStream(address) as stream:
            yield stream
        return
    async with connect(address) as world:
        for path in paths:
            await world.environment(path).register(if_absent=True)
        yield SdkSender(world)


@asynccontextmanager
async def open_unary_sender(target: str, address: str, path: str) -> AsyncIterator[UnarySender]:
    """A client of its own connection, and the environment that it will write to."""
    if target != "lean":
        async with connect(address) as world:
            await world.environment(path).register(if_absent=True)
    async with grpc.aio.insecure_channel(address, options=_OPTIONS) as channel:
        await channel.channel_ready()
        yield UnaryChannel(channel, path)


class SdkSender:
    """Blocks through the SDK."""

    def __init__(self, world: World) -> None:
        self._frames = world.frames

    async def submit(
        self, path: str, keys: Sequence[str], values: Sequence[float], producers: Sequence[str] | None
    ) -> Awaitable[int]:
        """See FrameSender."""
        seq = PRODUCER_SEQ if producers else 0
        return _count_done(await self._frames.submit_block(path, keys, values, producers=producers, seqs=seq))


async def _count_done(answer: asyncio.Future[FrameResult]) -> int:
    return (await answer).ok_count


class LeanStream:
    """One bare stream to the lean engine."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        self._slots = asyncio.Semaphore(LEAN_FRAMES_IN_FLIGHT_MAX)
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._seq = 0
        self._call: Any = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> LeanStream:
        await self._channel.channel_ready()
        self._call = self._channel.stream_stream(FRAMES_METHOD)()
        self._reading = asyncio.create_task(self._read(), name="lean answers")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._call.done_writing()
        assert self._reading is not None
        await self._reading
        await self._channel.close()

    async def submit(
        self,
        path: str,
        keys: Sequence[str],
        values: Sequence[float],
        producers: Sequence[str] | None,
        gate_generation: int = 0,
    ) -> asyncio.Future[int]:
        """See FrameSender."""
        await self._slots.acquire()
        self._seq += 1
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[self._seq] = answer
        await self._call.write(encode_frame(self._seq, path, keys, values, producers, PRODUCER_SEQ, gate_generation))
        return answer

    async def _read(self) -> None:
        async for message in self._call:
            seq, done = read_done(message)
            self._waiting.pop(seq).set_result(done)
            self._slots.release()


class UnaryChannel:
    """Unary calls of the contract, as raw bytes."""

    def __init__(self, channel: grpc.aio.Channel, path: str) -> None:
        self._update: Any = channel.unary_unary(UPDATE_METHOD)
        self._path = path

    async def put(self, key: str, value: float) -> None:
        """See UnarySender."""
        await self._update(encode_update(self._path, key, value))
