"""A model endpoint that is strict, counts like one that sells by the minute, and misbehaves on demand."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from aiohttp import web

WINDOW_S = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A well-formed chat completion, after `delay_s`. `calls` are (id, name, arguments) of tools.

    Tokens of 0 are counted in words.
    """

    text: str
    finish_reason: str = "stop"
    refusal: str | None = None
    calls: tuple[tuple[str, str, str], ...] = ()
    delay_s: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0


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


@dataclass(frozen=True, slots=True)
class Die:
    """The engine dies: this request and all in flight are cut, and nobody is served any more until `revive`."""


Step = Reply | Status | Hang | CutBody | CutConnection | Die
Play = Step | Callable[[dict[str, Any]], Step]
"""A step, or what chooses one for a request."""


class ModelEndpoint:
    """An OpenAI-compatible endpoint on a free port of loopback, for `async with`.

    Answers each request with the next of the enqueued steps, then with `default`. Refuses with 400
    whatever the strictest public endpoints refuse: unknown fields, a first message that is no system
    or user message, two assistant messages in a row, empty content, tool calls without their replies and replies
    without their calls, an open strict schema, `json_object` without the word JSON in a message, and the
    formats in `refused_formats`. Beyond `requests_per_minute` or `tokens_per_minute` (sent and received, counted
    when the request arrives) in any 60 s it answers 429.

    Attributes:
        requests: the accepted bodies, in order.
        complaints: why requests were refused as malformed; empty in a good test.
        given_up: requests whose client went away before it was answered.
        arrivals: (seconds, tokens) of everything that came, also what was refused for its rate.
        over_limit: requests refused for their rate; 0 in a good test.
        in_flight, in_flight_peak: requests being answered.
    """

    def __init__(
        self,
        default: Play,
        *,
        refused_formats: Iterable[str] = (),
        api_key: str | None = None,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._default = default
        self._steps: deque[Play] = deque()
        self._refused_formats = frozenset(refused_formats)
        self._api_key = api_key
        self._requests_max = requests_per_minute
        self._tokens_max = tokens_per_minute
        self._clock = clock
        self._runner: web.AppRunner | None = None
        self._alive = asyncio.Event()
        self._alive.set()
        self._handlers: set[asyncio.Task[Any]] = set()
        self.requests: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        self.given_up = 0
        self.arrivals: list[tuple[float, int]] = []
        self.over_limit = 0
        self.in_flight = self.in_flight_peak = 0
        self.base_url = ""

    def enqueue(self, *steps: Play) -> None:
        """Answers the coming requests with `steps`, one each."""
        self._steps.extend(steps)

    def revive(self) -> None:
        """The engine lives again."""
        self._alive.set()

    async def __aenter__(self) -> ModelEndpoint:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, keepalive_timeout=3600)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.in_flight += 1
        self.in_flight_peak = max(self.in_flight, self.in_flight_peak)
        try:
            return await self._answer(request)
        finally:
            self.in_flight -= 1
            self._handlers.discard(task)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self._api_key is not None and request.headers.get("Authorization") != f"Bearer {self._api_key}":
            return _error(401, f"Incorrect API key provided: {request.headers.get('Authorization')}")
        body = await request.json()
        complaint = complain(body)
        if complaint is not None:
            self.complaints.append(complaint)
            return _error(400, complaint)
        kind = body.get("response_format", {}).get("type", "text")
        if kind in self._refused_formats:
            return _error(400, f"'response_format.type' {kind} is not supported")
        if not self._alive.is_set():
            return await self._cut(request)
        play = self._steps.popleft() if self._steps else self._default
        step = play(body) if callable(play) else play
        if (wait_s := self._count(body, step)) > 0:
            self.over_limit += 1
            return web.Response(status=429, text="{}", headers={"Retry-After": f"{wait_s:.3f}"})
        self.requests.append(body)
        return await self._play(request, step, body)

    def _count(self, body: dict[str, Any], step: Step) -> float:
        """Counts a request; returns how long it should have waited."""
        now_s = (self._clock or asyncio.get_running_loop().time)()
        tokens = sum(count_usage(step, body)) if isinstance(step, Reply) else 0
        self.arrivals.append((now_s, tokens))
        if self._requests_max is None and self._tokens_max is None:
            return 0.0
        recent = [arrival for arrival in self.arrivals[:-1] if arrival[0] > now_s - WINDOW_S]
        too_many = self._requests_max is not None and len(recent) + 1 > self._requests_max
        too_much = self._tokens_max is not None and sum(used for _, used in recent) + tokens > self._tokens_max
        return WINDOW_S - (now_s - recent[0][0]) if too_many or too_much else 0.0

    async def _play(self, request: web.Request, step: Step, body: dict[str, Any]) -> web.StreamResponse:
        if isinstance(step, Status):
            return web.Response(status=step.status, text=step.body, headers=step.headers)
        if isinstance(step, Hang):
            try:
                await asyncio.Event().wait()
            finally:
                self.given_up += 1
        if isinstance(step, Die):
            self._alive.clear()
            for handler in self._handlers - {asyncio.current_task()}:
                handler.cancel()
        if isinstance(step, CutBody):
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b'{"choices": [{"message": {"content": "')
        if not isinstance(step, Reply):
            return await self._cut(request)
        if step.delay_s:
            await asyncio.sleep(step.delay_s)
        return web.json_response(_completion(step, body))

    async def _cut(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()


def count_most(arrivals: Iterable[tuple[float, int]], window_s: float = WINDOW_S) -> tuple[int, int]:
    """The most requests and the most tokens that any window of `window_s` seconds has seen."""
    window: deque[tuple[float, int]] = deque()
    tokens = requests_most = tokens_most = 0
    for at_s, used in sorted(arrivals):
        window.append((at_s, used))
        tokens += used
        while window[0][0] <= at_s - window_s:
            tokens -= window.popleft()[1]
        requests_most = max(requests_most, len(window))
        tokens_most = max(tokens_most, tokens)
    return requests_most, tokens_most


def count_usage(reply: Reply, body: dict[str, Any]) -> tuple[int, int]:
    """Tokens sent and received, as the endpoint counts."""
    prompt = reply.prompt_tokens or sum(len((message["content"] or "").split()) for message in body["messages"])
    return prompt, reply.completion_tokens or max(1, len(reply.text.split()))


def _completion(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
    finish_reason = reply.finish_reason
    if reply.calls:
        finish_reason = "tool_calls"
        message["tool_calls"] = [
            {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}
            for key, name, arguments in reply.calls
        ]
    prompt_tokens, completion_tokens = count_usage(reply, body)
    return {
        "object": "chat.completion",
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens},
    }


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "code": None}}, status=status)


_FIELDS = {"model", "messages", "max_tokens", "stream", "temperature", "seed", "response_format", "tools"}


def complain(body: dict[str, Any]) -> str | None:
    """What a strict endpoint has against a request, None if nothing."""
    unknown = set(body) - _FIELDS
    if unknown:
        return f"unknown fields {sorted(unknown)}"
    messages = body.get("messages")
    if not messages or not isinstance(body.get("model"), str):
        return "model and messages are required"
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        return "max_tokens must be a positive integer"
    roles = [message["role"] for message in messages]
    if set(roles) - {"system", "user", "assistant", "tool"} or roles[0] not in ("system", "user"):
        return f"bad roles {roles}"
    if ("assistant", "assistant") in pairwise(roles):
        return "two assistant messages in a row"
    return _complain_about_messages(messages) or _complain_about_tools(body) or _complain_about_format(body)


def _complain_about_messages(messages: list[dict[str, Any]]) -> str | None:
    open_calls: list[str] = []
    for message in messages:
        if unknown := set(message) - {"role", "content", "tool_calls", "tool_call_id"}:
            return f"unknown fields of a message {sorted(unknown)}"
        if message["role"] == "tool":
            if message.get("tool_call_id") not in open_calls:
                return "a tool message must follow the call that it replies to"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"tool calls without reply: {open_calls}"
        if calls := message.get("tool_calls"):
            if message["role"] != "assistant":
                return "only the assistant calls tools"
            for call in calls:
                json.loads(call["function"]["arguments"])
                open_calls.append(call["id"])
        elif not isinstance(message["content"], str) or not message["content"]:
            return "a message is empty"
    return f"tool calls without reply: {open_calls}" if open_calls else None


def _complain_about_tools(body: dict[str, Any]) -> str | None:
    for tool in body.get("tools", ()):
        if tool.get("type") != "function" or not tool.get("function", {}).get("name"):
            return "a tool is a function with a name"
        if tool["function"].get("parameters", {}).get("type") != "object":
            return "the parameters of a tool are an object"
    return "tools must not be empty" if body.get("tools") == [] else None


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
