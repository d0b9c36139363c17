"""Gateways before endpoints that sell by the minute, on a simulated clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, Field

from agent_runtime.llm import Gateway, Message, ModelRequest
from agent_runtime.llm.endpoints import Endpoint
from agent_runtime.llm.providers.openai import OpenAIProvider
from tests.model_endpoint import ModelEndpoint, Play, Reply, count_most
from tests.simulated_time import now_s


class Guess(BaseModel):
    number: float = Field(ge=0, le=100)


GOOD = Reply('{"number": 33}')


def ask_as(agent: str, words: int = 3) -> ModelRequest:
    return ModelRequest(agent, 1, 0, "m", (Message("user", "word " * words),), Guess, max_tokens=50)


@asynccontextmanager
async def serve(default: Play, **options: Any) -> AsyncIterator[ModelEndpoint]:
    async with ModelEndpoint(default, clock=now_s, **options) as endpoint:
        yield endpoint
        assert endpoint.complaints == []


def open_gateway(*endpoints: ModelEndpoint, in_flight_max: int = 32, **options: Any) -> Gateway:
    providers = [OpenAIProvider(endpoint.base_url, connections_max=in_flight_max) for endpoint in endpoints]
    known = [Endpoint(provider, in_flight_max=in_flight_max) for provider in providers]
    return Gateway(known, model="m", clock=now_s, **options)


def check_use(endpoint: ModelEndpoint, minutes: float, *, requests: int, tokens: int) -> None:
    """No minute saw more, and nearly all of the tighter limit was used."""
    most = count_most(endpoint.arrivals)
    assert endpoint.over_limit == 0
    assert most[0] <= requests
    assert most[1] <= tokens
    used = sum(used for _, used in endpoint.arrivals)
    assert max(len(endpoint.arrivals) / (requests * minutes), used / (tokens * minutes)) >= 0.9
