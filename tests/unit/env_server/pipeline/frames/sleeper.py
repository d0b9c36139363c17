"""A behaviour that holds a key, or all of an environment."""

from __future__ import annotations

from typing import Any, ClassVar

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.model.errors import Exhausted, Reason


class Sleeper(Behaviour):
    """Holds a key for some seconds, then sets it."""

    kind: ClassVar[str] = "sleeper"

    @operation(writes=lambda path, key, seconds, value=1: [Target(path, key)])
    async def hold(self, ctx: Context, key: str, seconds: float, value: int = 1) -> Any:
        if seconds:
            await ctx.sleep(seconds)
        ctx.set(key, value)
        return value

    @operation()
    async def hold_all(self, ctx: Context, seconds: float) -> None:
        await ctx.sleep(seconds)

    @operation()
    async def tire(self, ctx: Context, seconds: float) -> None:
        """Ends in a refusal for now."""
        await ctx.sleep(seconds)
        raise Exhausted(Reason.RATE_LIMITED, "too tired")
