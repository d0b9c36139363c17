"""A behaviour with operations of all manners."""

from __future__ import annotations

from typing import Any, ClassVar

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context


class Running:
    """Operations that run, of one test: what an earlier one has left is collected at any moment, and counts there."""

    now = 0
    peak = 0


class Desk(Behaviour):
    """Operations of all manners."""

    kind: ClassVar[str] = "desk"
    concurrency_max: ClassVar[int] = 0
    running = Running()

    @operation(writes=lambda path, key, seconds=0.0: [Target(path, key)])
    async def hold(self, ctx: Context, key: str, seconds: float = 0.0) -> str:
        running = Desk.running
        running.now += 1
        running.peak = max(running.peak, running.now)
        try:
            await ctx.sleep(seconds)
        finally:
            running.now -= 1
        ctx.append("log", "never") if key == "undeclared" else ctx.add(key, 1)
        return key

    @operation(timeout_s=2.0)
    async def hold_all(self, ctx: Context, seconds: float = 1.0) -> None:
        ctx.set("staged", 1)
        await ctx.sleep(seconds)
        ctx.set("late", 1)

    @operation(writes=lambda path: [Target(path, "a"), Target(path, "b")])
    async def refuse(self, ctx: Context) -> None:
        ctx.set("a", 1)
        await ctx.breathe()
        ctx.refuse("no", "not today", day="monday")

    @operation(writes=lambda path, value: [Target(path, "bad")])
    async def put_bad(self, ctx: Context, value: str) -> None:
        ctx.set("bad", {"nan": float("nan"), "big": 2**70, "object": object(), "long": "x" * (1 << 20) + "x"}[value])

    @operation(writes=lambda path: [Target(path, 1 / 0)])
    async def bad_targets(self, ctx: Context) -> None: ...

    @operation()
    async def bad_result(self, ctx: Context) -> Any:
        ctx.set("x", 1)
        return {1, 2}

    @operation()
    async def stubborn(self, ctx: Context) -> None:
        try:
            await ctx.sleep(100)
        finally:
            await ctx.sleep(100)

    @operation(reads_only=True)
    async def look(self, ctx: Context) -> Any:
        return ctx.get("x")
