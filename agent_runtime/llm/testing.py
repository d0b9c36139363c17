"""For tests: what every provider must do, and a model endpoint that is strict and misbehaves on demand."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from aiohttp import web

from agent_runtime.llm.provider import Provider
from agent_runtime.llm.requests import Completion, ModelRequest, SchemaMode
from agent_runtime.llm.structured import read_completion


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


@dataclass(frozen=True, slots=True)
class Reply:
    """A well-formed chat completion."""

    text: str
    finish_reason: str = "stop"
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """An answer with this status; `body` goes out as it is."""

    status: int
    body: str = '{"error": {"message": "scripted failure"}}'
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer until the client gives up."""


@dataclass(frozen=True, slots=True)
class CutBody:
    """A 200 whose connection closes after half of the announced body."""


@dataclass(frozen=True, slots=True)
class CutConnection:
    """The connection closes before any answer."""


Step = Reply | Status | Hang | CutBody | CutConnection


class ModelEndpoint:
    """An OpenAI-compatible endpoint on a free port of loopback, for `async with`.

    Answers each request with the next of the enqueued steps, then with `default`. Refuses with 400
    whatever the strictest public endpoints refuse: unknown fields, a first message that is no system
    or user message, two assistant messages in a row, empty content, an open strict schema,
    `json_object` without the word JSON in a message, and the formats in `refused_formats`.

    Attributes:
        requests: the accepted bodies, in order.
        complaints: why requests were refused as malformed; empty in a good test.
        given_up: requests whose client went away before it was answered.
    """

    def __init__(self, default: Step, *, refused_formats: Iterable[str] = (), api_key: str | None = None) -> None:
        self._default = default
        self._steps: deque[Step] = deque()
        self._refused_formats = frozenset(refused_formats)
        self._api_key = api_key
        self._runner: web.AppRunner | None = None
        self.requests: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        self.given_up = 0
        self.base_url = ""

    def enqueue(self, *steps: Step) -> None:
        """Answers the coming requests with `steps`, one each."""
        self._steps.extend(steps)

    async def __aenter__(self) -> ModelEndpoint:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self._api_key is not None and request.headers.get("Authorization") != f"Bearer {self._api_key}":
            return _error(401, f"Incorrect API key provided: {request.headers.get('Authorization')}")
        body = await request.json()
        complaint = _complain(body)
        if complaint is not None:
            self.complaints.append(complaint)
            return _error(400, complaint)
        kind = body.get("response_format", {}).get("type", "text")
        if kind in self._refused_formats:
            return _error(400, f"'response_format.type' {kind} is not supported")
        self.requests.append(body)
        return await self._play(request, self._steps.popleft() if self._steps else self._default, body)

    async def _play(self, request: web.Request, step: Step, body: dict[str, Any]) -> web.StreamResponse:
        if isinstance(step, Status):
            return web.Response(status=step.status, text=step.body, headers=step.headers)
        if isinstance(step, Hang):
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up += 1
        if isinstance(step, CutBody):
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b'{"choices": [{"message": {"content": "')
        if not isinstance(step, Reply):
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        return web.json_response(_completion(step, body))


def _completion(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
    return {
        "object": "chat.completion",
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
        "usage": {
            "prompt_tokens": sum(len(message["content"].split()) for message in body["messages"]),
            "completion_tokens": max(1, len(reply.text.split())),
        },
    }


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "code": None}}, status=status)


_FIELDS = {"model", "messages", "max_tokens", "stream", "temperature", "seed", "response_format"}


def _complain(body: dict[str, Any]) -> str | None:
    """Returns what a strict endpoint has against a request, None if nothing."""
    unknown = set(body) - _FIELDS
    if unknown:
        return f"unknown fields {sorted(unknown)}"
    messages = body.get("messages")
    if not messages or not isinstance(body.get("model"), str):
        return "model and messages are required"
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        return "max_tokens must be a positive integer"
    if any(not isinstance(m["content"], str) or not m["content"] for m in messages):
        return "a message is empty"
    roles = [message["role"] for message in messages]
    if set(roles) - {"system", "user", "assistant"} or roles[0] == "assistant":
        return f"bad roles {roles}"
    if ("assistant", "assistant") in pairwise(roles):
        return "two assistant messages in a row"
    return _complain_about_format(body)


def _complain_about_format(body: dict[str, Any]) -> str | None:
    wanted = body.get("response_format", {"type": "text"})
    if wanted["type"] == "json_object" and "json" not in json.dumps(body["messages"]).lower():
        return "json_object needs the word JSON in the messages"
    if wanted["type"] == "json_schema":
        spec = wanted["json_schema"]
        schema = spec["schema"]
        if not spec.get("name") or spec.get("strict") is not True:
            return "json_schema needs a name and strict"
        if schema.get("additionalProperties") is not False:
            return "a strict schema must close its objects"
        if set(schema.get("required", ())) != set(schema["properties"]):
            return "a strict schema must require every property"
    return None
