"""Kinds of environments with listeners, for the tests of listening."""

from __future__ import annotations

from typing import Any, ClassVar

from env_server.behaviours import Behaviour, Context, Event, EventType, Target, listener, operation
from env_server.testing import BehaviourStand


class Diary(Behaviour):
    """Writes down what it hears of its environment's keys."""

    kind: ClassVar[str] = "diary"
    heard: ClassVar[list[str]] = []
    running: ClassVar[set[tuple[str, int]]] = set()

    @listener(types=[EventType.ENTRY_SET], key="in.*", writes=lambda path, event: [Target(path, "log")])
    async def write_down(self, ctx: Context, event: Event) -> None:
        place = ctx.path, id(ctx.view)  # the view is that of one life of the world
        assert place not in Diary.running, "one at a time in an environment"
        Diary.running.add(place)
        try:
            Diary.heard.append(event.id)
            word = event.value
            if word == "slow":
                await ctx.sleep(5.0)
            if word == "forever":
                await ctx.sleep(100.0)
            ctx.append("log", {"id": event.id, "key": event.key, "value": word})
            if word == "raise":
                raise RuntimeError("/secret")
            if word == "refuse":
                ctx.refuse("no", "not this")
            if word == "undeclared":
                ctx.set("elsewhere", 1)
            if word == "nothing":
                ctx.staged.clear()
        finally:
            Diary.running.discard(place)

    @operation(writes=lambda path, seconds: [Target(path, "log")])
    async def hold_log(self, ctx: Context, seconds: float) -> None:
        await ctx.sleep(seconds)
        ctx.append("log", "held")


class Other(Behaviour):
    """Another kind."""

    kind = "other"

    @listener(key="x")
    async def count(self, ctx: Context, event: Event) -> None:
        ctx.add("count", 1)


def log_of(stand: BehaviourStand, path: str = "/d") -> list[Any]:
    return [item["value"] if isinstance(item, dict) else item for item in stand.items(path, "log")]
