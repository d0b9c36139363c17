"""Any endpoint that speaks the OpenAI chat protocol, over aiohttp's connections."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import aiohttp
from yarl import URL

from agent_runtime.llm.errors import (
    ModelEndpointError,
    ModelError,
    ModelRefusedError,
    ModelSetupError,
    ModelTimeoutError,
    ModelUnavailableError,
)
from agent_runtime.llm.providers.api_key import ApiKey
from agent_runtime.llm.providers.chat_bodies import read_completion, read_error, write_request
from agent_runtime.llm.providers.posting import JsonPoster, Response, ResponseTooLargeError
from agent_runtime.llm.requests import Completion, ModelRequest, SchemaMode

RESPONSE_BYTES_MAX = 4 * 1024 * 1024
JSON = "application/json"
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_SPENT_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


class OpenAIProvider:
    """A client of `{base_url}/chat/completions`.

    Keeps at most `connections_max` connections, which should equal the gateway's in-flight limit.
    Follows no redirects, so that the key goes nowhere else, and uses no proxy from the environment.
    Opens connections from the first call on and belongs to that call's event loop.
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
        self._poster: JsonPoster | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"OpenAIProvider({self._endpoint})"

    async def complete(self, request: ModelRequest, mode: SchemaMode) -> Completion:
        poster = self._poster
        if poster is None or self._closed:
            poster = self._open()
        try:
            response = await poster.post(write_request(request, mode, self._max_tokens_field))
        except aiohttp.ConnectionTimeoutError as error:
            raise ModelUnavailableError(request.model, self._endpoint, str(error)) from error
        except TimeoutError:
            raise ModelTimeoutError(request.model, self._timeout_s or 0.0) from None
        except aiohttp.ClientError as error:
            cause = f"connection failed ({type(error).__name__})"
            raise ModelUnavailableError(request.model, self._endpoint, cause) from error
        except ResponseTooLargeError as error:
            reason = f"answer larger than {RESPONSE_BYTES_MAX} bytes"
            raise ModelEndpointError(request.model, self._endpoint, error.status, reason) from None
        if response.status != 200:
            raise self._refusal(request, response)
        try:
            return read_completion(response.content, request.model)
        except ValueError:
            cause = "the reply is no chat completion"
            raise ModelUnavailableError(request.model, self._endpoint, cause, http_status=200) from None

    async def aclose(self) -> None:
        self._closed = True
        if self._poster is not None:
            await self._poster.aclose()

    def _open(self) -> JsonPoster:
        if self._closed:
            raise RuntimeError("the provider is closed")
        headers = {"Content-Type": JSON, "Accept": JSON}
        if self._api_key is not None:
            headers |= self._api_key.header()
        self._poster = JsonPoster(
            self._url,
            headers=headers,
            connections_max=self._connections_max,
            timeout_s=self._timeout_s,
            response_bytes_max=RESPONSE_BYTES_MAX,
        )
        return self._poster

    def _refusal(self, request: ModelRequest, response: Response) -> ModelError:
        """Returns the error for a status other than 200."""
        status = response.status
        code, reason = read_error(response.content)
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
