"""Serves the lean engine: `python -m ecumene.bench.limits.lean_server DIRECTORY`; ends with its standard input.

`/lean/Frames` takes OpFrames as a stream and answers each with a FrameAnswer; `/lean/Events` streams what they changed
as EventFrames, once it is durable, to whoever asks; the contract's unary Update takes one op.
Prints one JSON line when it is ready.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
from env_api.v1 import environment_service_pb2, operations_pb2, session_pb2

from ecumene.bench.child import Parent, run_child, tell
from ecumene.bench.limits.lean_engine import LeanEngine, LeanLog
from ecumene.bench.wire import EVENTS_METHOD, FRAMES_METHOD, MESSAGE_BYTES_MAX, UPDATE_METHOD

FRAMES_IN_FLIGHT_MAX = 64


class LeanService:
    """The engine behind gRPC."""

    def __init__(self, engine: LeanEngine) -> None:
        self._engine = engine
        self._readers: list[asyncio.Queue[bytes]] = []

    async def frames(self, requests: AsyncIterator[session_pb2.OpFrame], _: Any) -> AsyncIterator[bytes]:
        """Execute frames as they come, answer them in order when they are durable."""
        executed: asyncio.Queue[tuple[session_pb2.FrameAnswer, asyncio.Future[None], bytes] | None] = asyncio.Queue(
            FRAMES_IN_FLIGHT_MAX
        )

        async def read() -> None:
            async for frame in requests:
                answer, durable = self._engine.execute(frame)
                events = self._engine.encode_events(frame, answer) if self._readers else b""
                await executed.put((answer, durable, events))
            await executed.put(None)

        reading = asyncio.create_task(read(), name="lean frames")
        try:
            while (one := await executed.get()) is not None:
                answer, durable, events = one
                await durable
                for reader in self._readers:
                    reader.put_nowait(events)
                yield answer.SerializeToString()
        finally:
            reading.cancel()

    async def events(self, _request: bytes, _: Any) -> AsyncIterator[bytes]:
        """Begin with an empty message, then pass on the events of every frame that is executed from now on."""
        reader: asyncio.Queue[bytes] = asyncio.Queue()
        self._readers.append(reader)
        try:
            yield b""
            while True:
                yield await reader.get()
        finally:
            self._readers.remove(reader)

    async def update(self, request: environment_service_pb2.UpdateRequest, _: Any) -> bytes:
        """Set one value and answer when it is durable."""
        value = request.update.set.double_value
        revision, version, durable = self._engine.put(request.path, request.key, value)
        await durable
        written = operations_pb2.Written(revision=revision, version=version)
        header = environment_service_pb2.Header(world="main", revision=revision)
        return environment_service_pb2.UpdateResponse(header=header, written=written).SerializeToString()

    def handlers(self) -> grpc.GenericRpcHandler:
        """All methods under their names."""
        events: Any = grpc.unary_stream_rpc_method_handler(self.events)
        frames: Any = grpc.stream_stream_rpc_method_handler(self.frames, session_pb2.OpFrame.FromString)
        update: Any = grpc.unary_unary_rpc_method_handler(self.update, environment_service_pb2.UpdateRequest.FromString)
        return _Handlers({FRAMES_METHOD: frames, EVENTS_METHOD: events, UPDATE_METHOD: update})


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, methods: dict[str, grpc.RpcMethodHandler]) -> None:
        self._methods = methods

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._methods.get(handler_call_details.method)


async def serve(directory: Path) -> None:
    """Serve until the parent is gone."""
    log = LeanLog(directory, asyncio.get_running_loop())
    engine = LeanEngine(log)
    options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)]
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers((LeanService(engine).handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    # Entries live in millions and form no cycles.
    gc.collect()
    gc.freeze()
    gc.disable()
    async with Parent() as parent:
        tell({"address": f"127.0.0.1:{port}"})
        while await parent.wait_for_go():
            pass
    await server.stop(0)
    log.close()


if __name__ == "__main__":
    run_child(serve(Path(sys.argv[1])))
