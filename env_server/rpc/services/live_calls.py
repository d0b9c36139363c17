"""Calls that stream until somebody ends them: a step at a time, and a sign of life when none comes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from env_server.model.errors import Reason, Unavailable, WorldError
from env_server.pipeline import World

S = TypeVar("S")


class LiveCall:
    """One living call, for the registry of streams. The client resumes it with another call."""

    client_id = ""

    def __init__(self, world: World) -> None:
        self.world = world
        self._heartbeat_s = world.limits.heartbeat_ms / 1000
        self._ended: asyncio.Future[WorldError] = asyncio.get_running_loop().create_future()

    def go_away(self, reason: str, reconnect_after_ms: int) -> None:
        """There is no go-away in band: the call ends, and the client resumes after what it got last."""
        self.end(Unavailable(Reason.DRAINING, reason, retry_delay_ms=reconnect_after_ms))

    def end(self, error: WorldError) -> None:
        """Ends the call with the error's status."""
        if not self._ended.done():
            self._ended.set_result(error)

    async def steps(self, take: Callable[[], Awaitable[S]], name: str) -> AsyncGenerator[S | None, None]:
        """Every step that `take` gives, and None when none came for heartbeat_ms.

        Raises:
            WorldError: `take` raised it, or the call was ended with it.
        """
        loop = asyncio.get_running_loop()
        step: asyncio.Future[S] | None = None

        async def take_one() -> S:
            return await take()

        try:
            while True:
                step = step or loop.create_task(take_one(), name=name)
                await asyncio.wait((step, self._ended), timeout=self._heartbeat_s, return_when=asyncio.FIRST_COMPLETED)
                if self._ended.done():
                    raise self._ended.result()
                if step.done():
                    taken = step.result()
                    step = None
                    yield taken
                else:
                    yield None
        finally:
            if step is not None:
                step.cancel()
                await asyncio.gather(step, return_exceptions=True)
