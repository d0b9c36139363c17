"""Any endpoint that speaks the OpenAI chat protocol, over raw aiohttp."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
from pydantic_core import from_json, to_json
from yarl import URL

from agent_runtime.llm.answers import answer_schema, shape_messages
from agent_runtime.llm.errors import (
    ModelEndpointError,
    ModelError,
    ModelRefusedError,
    ModelSetupError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from agent_runtime.llm.providers.api_key import ApiKey
from agent_runtime.llm.requests import Completion, Message, ModelRequest, SchemaMode, Tool, ToolCall

RESPONSE_BYTES_MAX = 4 * 1024 * 1024
CONNECT_TIMEOUT_S = 10.0
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_SPENT_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


class OpenAIProvider:
    """A client of `{base_url}/chat/completions`.

    Keeps at most `connections_max` connections, which should equal the gateway's in-flight limit.
    Follows no redirects, so that the key goes nowhere else, and uses no proxy from the environment.
    Opens its session at the first call and belongs to that call's event loop.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: ApiKey | None = None,
        connections_max: int = 64,
        timeout_s: float | None = None,
        max_tokens_field: str = "max_tokens",
    ) -> None:
        """`timeout_s` bounds a call from connecting to the last byte; None leaves that to the gateway,
        whose limit is enough and saves each call a timer. `max_tokens_field` is
        `max_completion_tokens` for endpoints that no longer take `max_tokens`.

        Raises:
            ModelSetupError: `base_url` is not http(s)://host…, or holds credentials.
        """
        self._url = _chat_url(base_url)
        self._endpoint = f"{self._url.host}:{self._url.port}"
        self._api_key = api_key
        self._connections_max = connections_max
        self._timeout_s = timeout_s
        self._max_tokens_field = max_tokens_field
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"OpenAIProvider({self._endpoint})"

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        body = to_json(self._payload(request, mode))
        try:
            async with self._open_session().post(self._url, data=body, allow_redirects=False) as response:
                content = await self._read_body(request, response)
        except aiohttp.ConnectionTimeoutError as error:
            cause = f"no connection within {CONNECT_TIMEOUT_S:g} s"
            raise ModelUnavailableError(request.model, self._endpoint, cause) from error
        except TimeoutError:
            raise ModelTimeoutError(request.model, self._timeout_s or 0.0) from None
        except aiohttp.ClientError as error:
            cause = f"connection failed ({type(error).__name__})"
            raise ModelUnavailableError(request.model, self._endpoint, cause) from error
        if response.status != 200:
            raise self._refusal(request, response, content)
        return self._read_completion(request, content)

    async def aclose(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise RuntimeError("the provider is closed")
        if self._session is None:
            headers = {"Content-Type": "application/json", "Accept": "application/json"}
            if self._api_key is not None:
                headers |= self._api_key.header()
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections_max),
                timeout=aiohttp.ClientTimeout(total=self._timeout_s, sock_connect=CONNECT_TIMEOUT_S),
                headers=headers,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _payload(self, request: ModelRequest, mode: SchemaMode) -> dict[str, object]:
        messages = shape_messages(request, mode)
        payload: dict[str, object] = {
            "model": request.model,
            "messages": [_write_message(message) for message in messages],
            self._max_tokens_field: request.max_tokens,
            "stream": False,
        }
        if request.temperature is not None:
            payload["temperature"] = request.temperature
        if request.seed is not None:
            payload["seed"] = request.seed
        if request.answer_type is not None and mode is SchemaMode.JSON_SCHEMA:
            schema = {"name": request.answer_type.__name__, "strict": True}
            payload["response_format"] = {
                "type": "json_schema",
                "json_schema": {**schema, "schema": answer_schema(request.answer_type)},
            }
        elif mode is SchemaMode.JSON_OBJECT:
            payload["response_format"] = {"type": "json_object"}
        if request.tools:
            payload["tools"] = [_write_tool(tool) for tool in request.tools]
        return payload

    async def _read_body(self, request: ModelRequest, response: aiohttp.ClientResponse) -> bytes:
        parts: list[bytes] = []
        left = RESPONSE_BYTES_MAX
        async for part in response.content.iter_any():
            left -= len(part)
            if left < 0:
                reason = f"answer larger than {RESPONSE_BYTES_MAX} bytes"
                raise ModelEndpointError(request.model, self._endpoint, response.status, reason)
            parts.append(part)
        return b"".join(parts)

    def _read_completion(self, request: ModelRequest, content: bytes) -> Completion:
        try:
            reply: Any = from_json(content)
            choice = reply["choices"][0]
            message = choice["message"]
            refusal = message.get("refusal")
            text = message.get("content") or ""
            usage = reply.get("usage") or {}
            completion = Completion(
                text=str(refusal or text),
                finish_reason="content_filter" if refusal else str(choice.get("finish_reason") or "stop"),
                prompt_tokens=int(usage.get("prompt_tokens") or 0),
                completion_tokens=int(usage.get("completion_tokens") or 0),
                model=str(reply.get("model") or request.model),
                tool_calls=_read_tool_calls(message.get("tool_calls")),
            )
        except (ValueError, TypeError, LookupError, AttributeError):
            cause = "the reply is no chat completion"
            raise ModelUnavailableError(request.model, self._endpoint, cause, http_status=200) from None
        return completion

    def _refusal(self, request: ModelRequest, response: aiohttp.ClientResponse, content: bytes) -> ModelError:
        """Returns the error for a status other than 200."""
        status = response.status
        code, reason = _read_error(content)
        if self._api_key is not None:
            reason = self._api_key.hide_in(reason)
        reason = reason or response.reason or "no reason given"
        if code in ("content_filter", "content_policy_violation"):
            return ModelRefusedError(request.model, text=reason)
        # 501: the server lacks the feature. A spent account answers 429, but waiting will not fill it.
        temporary = status in _TRANSIENT_STATUSES or (status >= 500 and status != 501)
        if temporary and code not in _SPENT_CODES:
            return ModelUnavailableError(
                request.model,
                self._endpoint,
                reason,
                http_status=status,
                retry_after_s=read_retry_after_s(response.headers),
            )
        return ModelEndpointError(request.model, self._endpoint, status, reason)


def read_retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds that `Retry-After` asks to wait, None if it is absent or unreadable.

    A date is taken relative to the response's own `Date`, so that no local clock takes part.
    """
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
            seconds = (until - parsedate_to_datetime(headers.get("Date", ""))).total_seconds()
        except (ValueError, TypeError):
            return None
    return seconds if 0.0 <= seconds < float("inf") else None


def _read_error(content: bytes) -> tuple[str, str]:
    """Returns the code and the reason in an error body, whatever its shape."""
    try:
        body: Any = from_json(content)
    except ValueError:
        # A page of HTML says nothing that its status does not.
        text = content[:1000].decode("utf-8", "replace").strip()
        return "", "" if text.startswith("<") else text
    error = body.get("error", body) if isinstance(body, dict) else {}
    if not isinstance(error, dict):
        return "", str(error)
    return str(error.get("code") or error.get("type") or ""), str(error.get("message") or "")


def _write_message(message: Message) -> dict[str, object]:
    if message.tool_calls:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
        # Some endpoints refuse empty content, all take null beside calls.
        return {"role": message.role, "content": message.content or None, "tool_calls": calls}
    if message.role == "tool":
        return {"role": "tool", "content": message.content, "tool_call_id": message.tool_call_id}
    return {"role": message.role, "content": message.content}


def _write_tool(tool: Tool) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _read_tool_calls(calls: Any) -> tuple[ToolCall, ...]:
    """What the model calls; an id that is missing is made up, so that the reply can name it."""
    return tuple(
        ToolCall(
            str(call.get("id") or f"call_{place}"),
            str(call["function"]["name"]),
            str(call["function"].get("arguments") or "{}"),
        )
        for place, call in enumerate(calls or ())
    )


def _chat_url(base_url: str) -> URL:
    try:
        url = URL(base_url)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise ModelSetupError("openai", "base_url must look like http://host:port/v1")
    if url.user or url.password:
        raise ModelSetupError("openai", "base_url holds credentials; give the key by variable or file")
    return url / "chat/completions"
