"""For tests of providers: what every one must do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from agent_runtime.llm.answers import read_completion
from agent_runtime.llm.provider import Provider
from agent_runtime.llm.requests import Completion, ModelRequest, SchemaMode


async def check_llm_provider(
    make_provider: Callable[[], Awaitable[Provider]], request: ModelRequest, *, parallel: int = 16
) -> None:
    """Fails if a provider breaks the protocol. `request` has an answer type that the model can meet."""
    assert request.answer_type is not None
    provider = await make_provider()
    try:
        completion = await provider.complete(request, SchemaMode.JSON_SCHEMA)
        assert isinstance(completion, Completion)
        assert completion.finish_reason == "stop"
        assert completion.completion_tokens > 0
        assert isinstance(read_completion(request, completion), request.answer_type)

        many = await asyncio.gather(*(provider.complete(request, SchemaMode.JSON_SCHEMA) for _ in range(parallel)))
        assert len(many) == parallel

        given_up = asyncio.create_task(provider.complete(request, SchemaMode.JSON_SCHEMA), name="llm-check-given-up")
        await asyncio.sleep(0)
        given_up.cancel()
        outcome = (await asyncio.gather(given_up, return_exceptions=True))[0]
        assert isinstance(outcome, asyncio.CancelledError), "a cancelled call must end as cancelled"
        after = await provider.complete(request, SchemaMode.JSON_SCHEMA)
        assert after.finish_reason == "stop", "a cancelled call must leave the provider usable"
    finally:
        await provider.aclose()
        await provider.aclose()
