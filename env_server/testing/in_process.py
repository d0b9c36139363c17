"""A whole server in the test's own process, for tests of programs that use the SDK.

    async with serve_in_process(ChatRoom) as address, ecumene.connect(address) as world:
        await world.environment("/room").register(kind="chat_room")

It listens on a free port of this machine and keeps its worlds in a temporary directory. Time is real: for behaviours
that wait, `behaviour_stand` is the better place. Programs that may not import the server find this as the entry point
`serve_in_process` of the group `ecumene.testing`.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from env_server.behaviours.behaviour import Behaviour
from env_server.behaviours.registry import Behaviours, load
from env_server.model.limits import Limits
from env_server.rpc.loopback import serve_on_loopback
from env_server.worlds import Worlds


@asynccontextmanager
async def serve_in_process(
    *behaviours: type[Behaviour] | Behaviour, limits: Limits | None = None
) -> AsyncIterator[str]:
    """A server with an empty world `main`; gives its address.

    Serves these behaviours and no others; without any, those that are installed. `limits` None = a server's, but with
    storage for small worlds.

    Raises:
        BaseException: at the end, when a world could not commit: what made that fail.
    """
    made = [one() if isinstance(one, type) else one for one in behaviours]
    failed: list[BaseException] = []
    small = Limits(map_bytes=1 << 28, log_bytes_max=1 << 27)
    with TemporaryDirectory(prefix="ecumene-") as directory:
        worlds = Worlds(
            Path(directory),
            limits or small,
            Behaviours(made) if made else load([]),
            failed.append,
            lambda: uuid.uuid4().hex,
        )
        await worlds.start()
        try:
            async with serve_on_loopback(worlds) as address:
                yield address
        finally:
            if not failed:  # else nothing becomes durable any more, and waiting would not end
                await worlds.stop()
    if failed:
        raise failed[0]
