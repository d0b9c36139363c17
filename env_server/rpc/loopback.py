"""All services on a free port of this machine, for programs that have the server in their own process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from env_server.rpc import service
from env_server.rpc.options import SERVER_OPTIONS
from env_server.worlds import Worlds

_GRACE_S = 1.0


@asynccontextmanager
async def serve_on_loopback(worlds: Worlds) -> AsyncIterator[str]:
    """Serves these worlds inside the context; gives the address. Drains at the end; the worlds stay open."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    services = service.build(server, worlds)
    port = server.add_insecure_port("127.0.0.1:0")
    await services.begin()
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await services.drain("the server is about to stop", _GRACE_S)
        await server.stop(_GRACE_S)
