"""The OpenAI-compatible client: what it sends, what it keeps to itself."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from agent_runtime.llm import (
    Message,
    ModelEndpointError,
    ModelRefusedError,
    ModelRequest,
    ModelSetupError,
    ModelTimeoutError,
    ModelUnavailableError,
    SchemaMode,
)
from agent_runtime.llm.providers.api_key import ApiKey
from agent_runtime.llm.providers.openai import RESPONSE_BYTES_MAX, OpenAIProvider, read_retry_after_s
from agent_runtime.llm.testing import check_llm_provider
from tests.model_endpoint import Hang, ModelEndpoint, Reply, Status

KEY = "very-secret-value"


class Guess(BaseModel):
    number: float
    reason: str = ""


REQUEST = ModelRequest("a", 1, 0, "m", (Message("system", "You play."), Message("user", "Pick.")), Guess, 0.5, 40, 9)


async def test_it_is_a_provider() -> None:
    async with ModelEndpoint(Reply('{"number": 33}'), api_key=KEY) as endpoint:

        async def make() -> OpenAIProvider:
            return OpenAIProvider(endpoint.base_url, api_key=ApiKey(KEY))

        await check_llm_provider(make, REQUEST)
        assert endpoint.complaints == []


async def test_each_mode_asks_in_its_own_way() -> None:
    async with ModelEndpoint(Reply('{"number": 33}')) as endpoint:
        provider = OpenAIProvider(endpoint.base_url, max_tokens_field="max_tokens")
        for mode in (SchemaMode.JSON_SCHEMA, SchemaMode.JSON_OBJECT, SchemaMode.PROMPT):
            await provider.complete(REQUEST, mode)
        await provider.aclose()
    assert endpoint.complaints == []
    formats = [body.get("response_format", {}).get("type") for body in endpoint.requests]
    assert formats == ["json_schema", "json_object", None]
    sent = endpoint.requests[0]
    assert (sent["max_tokens"], sent["temperature"], sent["seed"]) == (40, 0.5, 9)


async def test_the_key_stays_out_of_errors_even_when_the_endpoint_echoes_it() -> None:
    async with ModelEndpoint(Reply("hi"), api_key="another") as endpoint:
        provider = OpenAIProvider(endpoint.base_url, api_key=ApiKey(KEY))
        with pytest.raises(ModelEndpointError) as caught:
            await provider.complete(REQUEST, SchemaMode.PROMPT)
        await provider.aclose()
    assert caught.value.http_status == 401
    assert KEY not in str(caught.value) + repr(provider) + repr(vars(provider))


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('{"error": {"code": "content_filter", "message": "no"}}', ModelRefusedError),
        ('{"error": "bad model"}', ModelEndpointError),
        ("[]", ModelEndpointError),
        ("<html>" + "x" * 5000, ModelEndpointError),
        ("plain words", ModelEndpointError),
    ],
)
async def test_error_bodies_of_any_shape_become_one_line(body: str, error: type[Exception]) -> None:
    async with ModelEndpoint(Status(400, body)) as endpoint:
        provider = OpenAIProvider(endpoint.base_url)
        with pytest.raises(error) as caught:
            await provider.complete(REQUEST, SchemaMode.PROMPT)
        await provider.aclose()
    assert len(str(caught.value)) < 300
    assert "<html>" not in str(caught.value)


async def test_a_spent_account_is_permanent_although_it_says_429() -> None:
    spent = Status(429, '{"error": {"code": "insufficient_quota", "message": "pay"}}')
    async with ModelEndpoint(spent) as endpoint:
        provider = OpenAIProvider(endpoint.base_url)
        with pytest.raises(ModelEndpointError):
            await provider.complete(REQUEST, SchemaMode.PROMPT)
        await provider.aclose()


@pytest.mark.parametrize("body", ["not json", "[]", '{"choices": []}', '{"choices": [{"message": null}]}', ""])
async def test_a_200_that_is_no_completion_is_transient(body: str) -> None:
    async with ModelEndpoint(Status(200, body)) as endpoint:
        provider = OpenAIProvider(endpoint.base_url)
        with pytest.raises(ModelUnavailableError):
            await provider.complete(REQUEST, SchemaMode.PROMPT)
        await provider.aclose()


async def test_an_answer_without_end_is_cut_off() -> None:
    async with ModelEndpoint(Status(200, "x" * (RESPONSE_BYTES_MAX + 1))) as endpoint:
        provider = OpenAIProvider(endpoint.base_url)
        with pytest.raises(ModelEndpointError, match="larger than"):
            await provider.complete(REQUEST, SchemaMode.PROMPT)
        await provider.aclose()


async def test_the_client_alone_also_ends_a_call_that_hangs() -> None:
    async with ModelEndpoint(Hang()) as endpoint:
        provider = OpenAIProvider(endpoint.base_url, timeout_s=0.1)
        with pytest.raises(ModelTimeoutError):
            await provider.complete(REQUEST, SchemaMode.PROMPT)
        await provider.aclose()


async def test_a_wrong_address_fails_at_once_with_its_cause() -> None:
    provider = OpenAIProvider("http://127.0.0.1:9/v1")
    with pytest.raises(ModelUnavailableError, match=r"127\.0\.0\.1:9: connection failed"):
        await provider.complete(REQUEST, SchemaMode.PROMPT)
    await provider.aclose()


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://h/v1", "http://user:pass@h/v1", "http://[::1"])
def test_addresses_that_cannot_be_meant_are_refused(url: str) -> None:
    with pytest.raises(ModelSetupError) as caught:
        OpenAIProvider(url)
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "3"}, 3.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert read_retry_after_s(headers) == seconds


async def test_giving_up_closes_the_request_upstream() -> None:
    async with ModelEndpoint(Hang()) as endpoint:
        provider = OpenAIProvider(endpoint.base_url)
        call = asyncio.create_task(provider.complete(REQUEST, SchemaMode.PROMPT), name="given-up")
        while not endpoint.requests:  # noqa: ASYNC110  counts of the other side, which has no event for them
            await asyncio.sleep(0.005)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(5):
            while endpoint.given_up == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        await provider.aclose()
