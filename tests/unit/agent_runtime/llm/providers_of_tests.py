"""Providers that do one thing each, as tests of the gateway need them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent_runtime.llm import Completion, ModelRequest, SchemaMode


class Silent:
    """Is never asked."""

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        raise AssertionError("nobody asks it")

    async def aclose(self) -> None:
        """Nothing to release."""


class Answering:
    """Answers `text` after `delay_s`, and reports what `usage` says (prompt and completion tokens)."""

    def __init__(
        self,
        text: str = "ok",
        *,
        delay_s: float = 0.0,
        usage: tuple[int, int] = (3, 2),
        on_call: Callable[[ModelRequest], None] | None = None,
    ) -> None:
        self.text = text
        self.delay_s = delay_s
        self.usage = usage
        self.on_call = on_call
        self.calls = 0
        self.failing: Exception | None = None
        self.closed = 0

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        self.calls += 1
        if self.on_call is not None:
            self.on_call(request)
        await asyncio.sleep(self.delay_s)
        if self.failing is not None:
            raise self.failing
        return Completion(self.text, "stop", *self.usage, "m")

    async def aclose(self) -> None:
        self.closed += 1
