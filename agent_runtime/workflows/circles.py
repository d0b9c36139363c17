"""Circles of waiting methods over several hosts: long waits are written down in the flow, and followed from there."""

from __future__ import annotations

import asyncio
from typing import Any

from ecumene.client import EcumeneError, Entry, World
from ecumene.workflows.messages import WAITS, flow_path

ACTORS_FOLLOWED_MAX = 1_000
CONFIRM_AFTER_S = 0.5


class Circles:
    """Finds circles that lead over other hosts. One entry an actor that waits for long; it goes with the flow."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def look(self, flow: str, actor: str, needed: frozenset[str]) -> bool:
        """Whether the actors that one waits for wait for it. The last one of a circle to ask is told so."""
        place = self._world.environment(f"{flow_path(flow)}/{WAITS}")
        try:
            await place.register(if_absent=True)
            await place.set(actor, [*sorted(needed)])
            first = await self._follow(flow, actor, needed)
            if not first:
                return False
            # What was read is older than now: the same waits must stand a moment later.
            await asyncio.sleep(CONFIRM_AFTER_S)
            return await self._follow(flow, actor, needed) == first
        except EcumeneError:
            return False  # the flow is gone, or the connection: either ends the wait

    async def forget(self, flow: str, actor: str) -> None:
        """An actor waits no longer."""
        try:
            await self._world.environment(f"{flow_path(flow)}/{WAITS}").delete(actor, if_present=True)
        except EcumeneError:
            pass

    async def _follow(self, flow: str, actor: str, needed: frozenset[str]) -> dict[str, int]:
        """The waits between an actor and itself, each with its version; empty = it does not wait for itself."""
        path = f"{flow_path(flow)}/{WAITS}"
        seen: dict[str, int] = {}
        left = set(needed)
        while left and len(seen) < ACTORS_FOLLOWED_MAX:
            if actor in left:
                return seen or {actor: 0}
            frame: Any = self._world.frame()
            asked = sorted(left)
            for name in asked:
                frame.get(path, name)
            result = await self._world.frames.send(frame)
            left = set()
            for index, name in enumerate(asked):
                found = result.peek(index)
                seen[name] = 0
                if isinstance(found, Entry) and isinstance(found.value, list):
                    seen[name] = found.modify_revision
                    left |= {str(other) for other in found.value}
            left -= seen.keys() - {actor}
        return {}
