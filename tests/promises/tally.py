"""The behaviour of the counting test: a counter that is read, awaited, and written again, while the key is held."""

from __future__ import annotations

from typing import ClassVar

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context


class Tally(Behaviour):
    """Adds to a total that is a plain value: without the held key two calls would lose one."""

    kind: ClassVar[str] = "tally"

    @operation(writes=lambda path, by=1: [Target(path, "total")])
    async def count(self, ctx: Context, by: int = 1) -> int:
        """Reads, lets others have their turn, writes."""
        total = ctx.get("total") or 0
        assert isinstance(total, int)
        await ctx.breathe()
        ctx.set("total", total + by)
        return total + by


class Blocker(Behaviour):
    """Holds keys, refuses, and breaks."""

    kind: ClassVar[str] = "blocker"

    @operation(writes=lambda path, key, seconds: [Target(path, key)])
    async def hold(self, ctx: Context, key: str, seconds: float) -> str:
        """Holds the key for a while, then sets it."""
        await ctx.sleep(seconds)
        ctx.set(key, "held")
        return key

    @operation(timeout_s=0.05)
    async def dawdle(self, ctx: Context) -> None:
        """Takes longer than it may."""
        await ctx.sleep(60)

    @operation()
    async def refuse(self, ctx: Context) -> None:
        """Says no."""
        ctx.set("never", 1)
        ctx.refuse("not_today", "come back tomorrow")

    @operation()
    async def fail(self, ctx: Context) -> None:
        """Has a defect; its text must reach nobody."""
        raise ValueError("secret of the server")
