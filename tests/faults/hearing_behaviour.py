"""A behaviour whose listeners write down what they hear; installed on servers by test_listeners.py."""

from __future__ import annotations

from typing import ClassVar

from env_server.behaviours import Behaviour, Context, Event, EventType, Target, listener


class Hearing(Behaviour):
    """Two listeners: one at once, one in a chain behind it and after some time."""

    kind: ClassVar[str] = "hearing"

    @listener(types=[EventType.ENTRY_SET], key="in", writes=lambda path, event: [Target(path, "heard")])
    async def hear(self, ctx: Context, event: Event) -> None:
        ctx.append("heard", {"id": event.id, "value": event.value})

    @listener(
        types=[EventType.ENTRY_APPENDED],
        key="heard",
        writes=lambda path, event: [Target(path, "echoes"), Target(path, "count")],
    )
    async def echo(self, ctx: Context, event: Event) -> None:
        await ctx.sleep(0.002 if event.value["value"] % 3 else 0.0)
        ctx.append("echoes", event.value["value"])
        ctx.add("count", 1)
