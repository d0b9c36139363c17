"""Kinds whose one operation holds a key for a while: what held keys cost (`ecumene bench env`), and tests of waiting.

Not installed by default; loaded with `--behaviour env_server.testing.hold:Hold8` and so on. The kinds differ only in
how many operations of one environment may run at a time.
"""

from typing import ClassVar

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context


class _Hold(Behaviour):
    kind: ClassVar[str] = ""

    @operation(writes=lambda path, key, hold_ms: [Target(path, key)])
    async def hold(self, ctx: Context, key: str, hold_ms: float) -> int:
        """Holds `key` for `hold_ms`, then counts it up by one; returns the new count."""
        await ctx.sleep(hold_ms / 1000)
        held = ctx.get(key)
        count = (held if isinstance(held, int) else 0) + 1
        ctx.set(key, count)
        return count


class Hold1(_Hold):
    """One at a time."""

    kind = "hold-1"
    concurrency_max = 1


class Hold8(_Hold):
    """Eight at a time."""

    kind = "hold-8"
    concurrency_max = 8


class Hold64(_Hold):
    """64 at a time."""

    kind = "hold-64"
    concurrency_max = 64


class Hold512(_Hold):
    """512 at a time."""

    kind = "hold-512"
    concurrency_max = 512
